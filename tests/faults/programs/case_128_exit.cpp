// SPDX-License-Identifier: Apache-2.0
// Public case 128: a process ends cleanly with live plans. Statics, thread-locals, a filled cache and a
// running thread hold compiled functions and arrays while main returns, exit() or quick_exit() is called.
// Each variant runs 20 times in a process of its own, which must end with 0 and print nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stiletto/stiletto.hpp>
#include <string>
#include <thread>

namespace {

namespace st = stiletto;
using Plan = st::Compiled<st::Array(st::Array)>;

bool call_from_destructors = false;

// Constructed before and after anything of the library's, so that destruction happens in both orders.
struct Holder {
  Plan plan;
  st::Array array;
  st::Graph graph;
  ~Holder() {
    if (call_from_destructors) plan(array);  // still usable while statics and thread-locals go
  }
};
Holder early;

st::Array layer(const st::Array& x) { return st::tanh(st::matmul(x, x)) + 1; }

void fill(Holder& holder) {
  holder.array = st::full({8, 8}, 0.5F);
  holder.plan = st::compile(layer, holder.array);
  holder.graph = holder.plan.graph();
  holder.plan(holder.array);
  for (std::int64_t n = 1; n < 20; ++n) st::jit([](const st::Array& a) { return a * 2; }, st::ones({n}));
}

[[noreturn]] void leave(int how) {
  if (how == 1) std::exit(0);
  std::quick_exit(0);
}

int child(const std::string& variant) {
  static Holder late;
  thread_local Holder local;
  fill(early);
  fill(late);
  fill(local);
  if (variant == "return") return 0;
  if (variant == "called_from_destructors") {
    call_from_destructors = true;
    return 0;
  }
  if (variant == "exit") leave(1);
  if (variant == "quick_exit") leave(2);
  if (variant == "joined_thread") {
    std::thread([] {
      thread_local Holder inner;
      fill(inner);
    }).join();
    return 0;
  }
  // A thread that runs while the process ends.
  static std::atomic<bool> started = false;
  std::thread([] {
    thread_local Holder inner;
    fill(inner);
    while (true) {
      inner.plan(inner.array);
      st::jit([](const st::Array& a) { return a * 2; }, inner.array);
      started = true;
    }
  }).detach();
  while (!started) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (variant == "thread_and_exit") leave(1);
  if (variant == "thread_and_quick_exit") leave(2);
  return 0;
}

/// Runs this program as a child; its exit code, and what it wrote to stderr.
int run_child(const char* program, const char* variant, std::string& said) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t id = fork();
  if (id == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(program, program, variant, nullptr);
    _exit(127);
  }
  close(ends[1]);
  char buffer[512];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(id, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return child(arguments[1]);
  int failures = 0;
  for (const char* variant : {"return", "exit", "quick_exit", "joined_thread", "called_from_destructors",
                              "thread_and_return", "thread_and_exit", "thread_and_quick_exit"})
    for (int round = 0; round < 20; ++round) {
      std::string said;
      const int code = run_child("/proc/self/exe", variant, said);
      if (code == 0 && said.empty()) continue;
      ++failures;
      std::printf("%s, round %d: exit code %d, stderr: %s\n", variant, round, code, said.c_str());
    }
  return failures == 0 ? 0 : 1;
}
