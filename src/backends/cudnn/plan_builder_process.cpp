// SPDX-License-Identifier: Apache-2.0
// Starting the plan builder and talking to it. The request goes through the process's standard input until
// end of file; the answer comes back as one line, "stiletto-plan-builder VERSION answer|failure LENGTH", and
// LENGTH bytes. exec and not a bare fork: a fork would inherit the real driver.
#include "backends/cudnn/plan_builder_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "backends/cudnn/library_search.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* program_name = "stiletto-plan-builder";

[[noreturn]] void fail(const std::string& what) {
  throw DeviceError(
      text("a plan for a GPU that is not in this machine is built by ", program_name, ", and ", what));
}

[[noreturn]] void fail_with_errno(const std::string& what) {
  fail(text(what, " (", std::strerror(errno), "); free memory, processes or file descriptors and try again"));
}

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~FileDescriptor() { close(); }
  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void close() {
    if (value_ >= 0) ::close(value_);
    value_ = -1;
  }

 private:
  int value_ = -1;
};

std::string program_path() {
  const char* named = std::getenv("STILETTO_PLAN_BUILDER");
  const std::string path = named != nullptr && *named != '\0' ? named : find_companion(program_name);
  if (path.empty())
    fail(
        "it was not found beside the library; install Stiletto again with all of its files, or name the "
        "program in STILETTO_PLAN_BUILDER");
  return path;
}

/// The running program; ended and waited for on destruction.
class Process {
 public:
  explicit Process(const std::string& path) {
    // A socket rather than pipes: writing to one whose reader is gone need not raise SIGPIPE in the caller.
    std::array<int, 2> talk{};
    std::array<int, 2> words{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk.data()) != 0)
      fail_with_errno("no socket could be made for it");
    talk_ = FileDescriptor(talk[0]);
    const FileDescriptor its_talk(talk[1]);
    if (pipe2(words.data(), O_CLOEXEC) != 0) fail_with_errno("no pipe could be made for it");
    words_ = FileDescriptor(words[0]);
    const FileDescriptor its_words(words[1]);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, its_talk.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, its_talk.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, its_words.get(), STDERR_FILENO);
    std::string name = program_name;
    std::array<char*, 2> arguments = {name.data(), nullptr};
    errno = posix_spawn(&id_, path.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errno != 0)
      fail(text(path, " could not be started (", std::strerror(errno),
                "); install Stiletto again, or name the program in STILETTO_PLAN_BUILDER"));
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (!ended_) kill(id_, SIGKILL);
    wait();
  }

  FileDescriptor& talk() { return talk_; }
  FileDescriptor& words() { return words_; }

  /// How it ended, in words.
  std::string end() {
    const int status = wait();
    if (WIFSIGNALED(status))
      return text("was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
    return text("ended with status ", WEXITSTATUS(status));
  }

 private:
  int wait() {
    // Where the program that uses us ignores SIGCHLD there is nothing to wait for, and no status.
    while (!ended_ && waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
    return status_;
  }

  FileDescriptor talk_, words_;
  pid_t id_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

/// Appends what is there to read; closes the descriptor at end of file.
void drain(FileDescriptor& from, std::string& to) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(from.get(), buffer.data(), buffer.size());
  if (count > 0)
    to.append(buffer.data(), static_cast<std::size_t>(count));
  else if (count == 0 || (errno != EINTR && errno != EAGAIN))
    from.close();
}

struct Conversation {
  std::string answer;  // all of its standard output
  std::string words;   // all of its standard error
};

Conversation converse(Process& process, std::string_view request, std::chrono::milliseconds deadline) {
  Conversation result;
  if (request.empty()) shutdown(process.talk().get(), SHUT_WR);
  const auto end = Clock::now() + deadline;
  while (process.talk().is_open() || process.words().is_open()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0)
      fail(text("it had not answered after ", deadline.count() / 1000.0,
                " s; build for a smaller graph, or report the graph"));
    std::array<pollfd, 2> waiting = {
        pollfd{process.talk().get(), static_cast<short>(POLLIN | (request.empty() ? 0 : POLLOUT)), 0},
        pollfd{process.words().get(), POLLIN, 0}};
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR)
      fail_with_errno("waiting for it failed");
    if (process.talk().is_open() && (waiting[0].revents & POLLOUT) != 0 && !request.empty()) {
      const ssize_t sent =
          send(process.talk().get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) request.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) request = {};  // it is gone: its words say why
      if (request.empty()) shutdown(process.talk().get(), SHUT_WR);
    }
    if ((waiting[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) drain(process.talk(), result.answer);
    if ((waiting[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) drain(process.words(), result.words);
  }
  return result;
}

/// The last lines of what a process has printed, on one line.
std::string last_words(std::string words) {
  constexpr std::size_t enough = 500;
  while (!words.empty() && words.back() == '\n') words.pop_back();
  if (words.size() > enough) words.erase(0, words.size() - enough);
  for (char& c : words)
    if (c == '\n') c = ' ';
  return words.empty() ? "it printed nothing" : "it printed: " + words;
}

}  // namespace

std::string plan_builder_header(const char* kind, std::size_t length) {
  return text(program_name, " ", STILETTO_VERSION, " ", kind, " ", length, "\n");
}

std::string run_plan_builder(const std::string& request, std::chrono::milliseconds deadline) {
  const std::string path = program_path();
  Process process(path);
  Conversation said = converse(process, request, deadline);
  const std::size_t line = said.answer.find('\n');
  if (line != std::string::npos) {
    const std::string body = said.answer.substr(line + 1);
    const std::string first = said.answer.substr(0, line + 1);
    if (first == plan_builder_header("answer", body.size())) return body;
    if (first == plan_builder_header("failure", body.size())) throw DeviceError(body);
    if (first.starts_with(program_name) && !first.starts_with(text(program_name, " ", STILETTO_VERSION, " ")))
      fail(text(path, " is of another version (", first.substr(0, first.size() - 1), ", the library is ",
                STILETTO_VERSION, "); install the two together"));
  }
  const std::string end = process.end();
  fail(text(path, " ", end, " without an answer; ", last_words(std::move(said.words))));
}

}  // namespace stiletto::detail::cudnn
