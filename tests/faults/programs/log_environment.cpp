// SPDX-License-Identifier: Apache-2.0
// STILETTO_LOG, which a process reads once: each value is tried in a process of its own. Exits with 0 when
// what comes on standard error is right.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stiletto/stiletto.hpp>
#include <string>

namespace {

namespace st = stiletto;

/// What a process that compiles two functions says under STILETTO_LOG=value.
std::string said(const char* value, bool set_by_program) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    setenv("STILETTO_LOG", value, 1);
    const st::Array x = st::full({4}, 1.0F);
    if (set_by_program) st::set_log({});
    for (int i = 0; i < 2; ++i) st::compile([](const st::Array& a) { return a; }, x);
    _exit(0);
  }
  close(ends[1]);
  std::string result;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    result.append(buffer, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) std::abort();
  return result;
}

bool expect(const char* value, bool set_by_program, const std::string& wanted) {
  const std::string given = said(value, set_by_program);
  if (given == wanted) return true;
  std::printf("STILETTO_LOG=%s\nwanted:\n%sgiven:\n%s", value, wanted.c_str(), given.c_str());
  return false;
}

}  // namespace

int main() {
  const std::string trace =
      "stiletto: trace: trace\nstiletto: trace:   %0 = arg0: float32(4)\nstiletto: trace:   return %0\n";
  bool right = expect("", false, "");
  right &= expect("trace", false, trace + trace);
  right &= expect("cache,trace", false, trace + trace);
  right &= expect("cache", false, "");
  right &= expect("trace", true, "");  // the program has the last word
  right &= expect("tracing,trace", false,
                  "stiletto: STILETTO_LOG: there is no tracing; there are: all, trace, graph, plan, cache, "
                  "autotune\n" +
                      trace + trace);
  return right ? 0 : 1;
}
