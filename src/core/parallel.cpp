// SPDX-License-Identifier: Apache-2.0
// The thread pool behind parallel_for. A job lives on its caller's stack and hangs in the pool's list while
// it has tasks to give away; workers attach to it under the pool's mutex, so the caller knows when the last
// one has left.
#include "core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#endif

namespace stiletto::detail {
namespace {

constexpr std::size_t thread_limit = 1024;
/// How long a thread watches for news before it sleeps. Waking one costs about as much.
constexpr std::chrono::microseconds spin_time{20};

/// True while this thread runs a task: a call from inside one stays on the thread.
thread_local bool inside_task = false;

/// True in a child process: fork copies the calling thread alone, so the pool has no workers there.
std::atomic<bool> forked{false};

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/// Whether `ready` came true within spin_time.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

struct Job {
  void (*run)(void* context, std::size_t task);
  void* context;
  std::size_t tasks;
  std::atomic<std::size_t> next{0};     // the first task that nobody has taken
  std::atomic<std::size_t> workers{0};  // attached; changed under the pool's mutex
  std::exception_ptr error{};           // the first one; under the pool's mutex
  Job* following = nullptr;
  bool listed = false;

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= tasks; }
};

class Pool {
 public:
  explicit Pool(std::size_t workers);
  void run(Job&);

 private:
  void work_forever();
  void perform(Job&);
  Job* attach();          // the mutex is held
  void unlist(Job&);      // the mutex is held
  Job* wait_for_a_job();  // the mutex is held on entry and return, not between

  std::mutex mutex_;
  std::condition_variable job_listed_, worker_left_;
  Job* first_ = nullptr;
  std::atomic<std::size_t> listed_{0};  // length of the list, for those who spin
  std::size_t workers_ = 0, spinning_ = 0, sleeping_ = 0, waiting_callers_ = 0;
  int callers_core_ = -1;  // where the latest job came from
};

#if defined(__linux__)
/// The main thread's mask is the process's: the calling thread may have been pinned to one core.
bool process_affinity(cpu_set_t& cores) { return sched_getaffinity(getpid(), sizeof cores, &cores) == 0; }
#endif

int current_core() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

/// A scheduler that packs threads wakes a worker on the core of its caller and leaves it there for
/// milliseconds, the two taking turns. A worker that finds itself there moves off, and stays off as long as
/// that core calls.
void leave_core([[maybe_unused]] int core) {
#if defined(__linux__)
  cpu_set_t cores;
  if (core < 0 || core >= CPU_SETSIZE || core != current_core() || !process_affinity(cores)) return;
  CPU_CLR(core, &cores);
  if (CPU_COUNT(&cores) > 0) sched_setaffinity(0, sizeof cores, &cores);
#endif
}

void prepare_worker() {
#if defined(__linux__)
  cpu_set_t cores;
  if (process_affinity(cores)) sched_setaffinity(0, sizeof cores, &cores);
  sigset_t all;  // signals are for the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
#endif
}

Pool::Pool(std::size_t workers) {
#if defined(__linux__)
  pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
#endif
  try {
    for (; workers_ < workers; ++workers_)
      std::thread([this] {
        prepare_worker();
        work_forever();
      }).detach();
  } catch (const std::system_error&) {
    return;  // the system gives no more threads: those that run, and the callers, do the work
  }
}

void Pool::perform(Job& job) {
  inside_task = true;
  try {
    for (;;) {
      const std::size_t task = job.next.fetch_add(1, std::memory_order_relaxed);
      if (task >= job.tasks) break;
      job.run(job.context, task);
    }
  } catch (...) {
    job.next.store(job.tasks, std::memory_order_relaxed);  // what has not begun need not begin
    const std::lock_guard lock(mutex_);
    if (!job.error) job.error = std::current_exception();
  }
  inside_task = false;
}

void Pool::unlist(Job& job) {
  if (!job.listed) return;
  Job** link = &first_;
  while (*link != &job) link = &(*link)->following;
  *link = job.following;
  job.listed = false;
  listed_.fetch_sub(1, std::memory_order_relaxed);
}

Job* Pool::attach() {
  while (first_ != nullptr) {
    Job& job = *first_;
    if (!job.exhausted()) {
      job.workers.fetch_add(1, std::memory_order_relaxed);
      return &job;
    }
    unlist(job);
  }
  return nullptr;
}

Job* Pool::wait_for_a_job() {
  for (;;) {
    if (Job* job = attach()) return job;
    ++spinning_;
    mutex_.unlock();
    spin_until([this] { return listed_.load(std::memory_order_relaxed) > 0; });
    mutex_.lock();
    --spinning_;
    if (Job* job = attach()) return job;
    ++sleeping_;
    std::unique_lock lock(mutex_, std::adopt_lock);
    job_listed_.wait(lock);
    --sleeping_;
    const int core = callers_core_;
    lock.unlock();
    leave_core(core);
    lock.lock();
    lock.release();
  }  // woken too late, it spins again: where one job was, the next is likely
}

void Pool::work_forever() {
  mutex_.lock();
  for (;;) {
    Job* const job = wait_for_a_job();
    mutex_.unlock();
    perform(*job);
    mutex_.lock();
    job->workers.fetch_sub(1, std::memory_order_release);  // from here on the caller may return: job is gone
    if (waiting_callers_ > 0) worker_left_.notify_all();
  }
}

void Pool::run(Job& job) {
  const std::size_t wanted = job.tasks - 1;
  const int core = current_core();
  std::size_t to_wake = 0, sleeping = 0;
  {
    const std::lock_guard lock(mutex_);
    callers_core_ = core;
    Job** link = &first_;
    while (*link != nullptr) link = &(*link)->following;
    *link = &job;
    job.listed = true;
    listed_.fetch_add(1, std::memory_order_relaxed);
    sleeping = sleeping_;
    to_wake = std::min(sleeping, wanted - std::min(wanted, spinning_));
  }
  if (to_wake > 0 && to_wake == sleeping) {
    job_listed_.notify_all();  // one system call
  } else {
    for (; to_wake > 0; --to_wake) job_listed_.notify_one();
  }
  perform(job);
  {
    std::unique_lock lock(mutex_);
    unlist(job);
    const auto all_left = [&job] { return job.workers.load(std::memory_order_acquire) == 0; };
    if (!all_left()) {
      lock.unlock();
      const bool left = spin_until(all_left);
      lock.lock();  // also waits for the last worker to have let go of the mutex
      if (!left) {
        ++waiting_callers_;
        worker_left_.wait(lock, all_left);
        --waiting_callers_;
      }
    }
  }
  if (job.error) std::rethrow_exception(job.error);
}

/// Never destroyed: its threads outlive every static object.
Pool& pool() {
  static Pool& the_pool = *new Pool(thread_count() - 1);
  return the_pool;
}

std::size_t threads_from_environment() {
  const char* const text = std::getenv("STILETTO_NUM_THREADS");
  if (text == nullptr) return 0;
  std::size_t threads = 0;
  const char* const end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, threads);
  return error == std::errc{} && last == end ? threads : 0;
}

std::size_t usable_cores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (process_affinity(cores)) return static_cast<std::size_t>(CPU_COUNT(&cores));
#endif
  return std::thread::hardware_concurrency();
}

}  // namespace

std::size_t thread_count() {
  static const std::size_t count = [] {
    const std::size_t asked = threads_from_environment();
    return std::clamp<std::size_t>(asked > 0 ? asked : usable_cores(), 1, thread_limit);
  }();
  return count;
}

void parallel_for(std::size_t tasks, void (*run)(void* context, std::size_t task), void* context) {
  if (tasks <= 1 || inside_task || thread_count() == 1 || forked.load(std::memory_order_relaxed)) {
    for (std::size_t task = 0; task < tasks; ++task) run(context, task);
    return;
  }
  Job job{run, context, tasks};
  pool().run(job);
}

}  // namespace stiletto::detail
