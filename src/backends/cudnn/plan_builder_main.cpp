// SPDX-License-Identifier: Apache-2.0
// The other end of plan_builder_process.cpp: reads one request, answers it with the driver stand-in in place
// of a driver, and ends.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/plan_builder_process.hpp"
#include "backends/cudnn/plan_request.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {

/// Defined with the lowering: builds the plan that the request describes. Weak while there is none.

namespace {

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string read_all(int descriptor) {
  std::string result;
  char buffer[65536];
  for (;;) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count > 0)
      result.append(buffer, static_cast<std::size_t>(count));
    else if (count == 0 || errno != EINTR)
      return result;
  }
}

}  // namespace

int serve_plan_request(int argc, char** argv, PlanAnswer answer) {
  if (argc > 1 && std::string_view(argv[1]) == "--version") {
    std::printf("stiletto-plan-builder %s\n", STILETTO_VERSION);
    return 0;
  }
  if (argc > 1 || isatty(STDIN_FILENO) != 0) {
    std::fputs(
        "stiletto-plan-builder is started by libstiletto, which sends a request to its standard input; "
        "to see what this machine offers, run: stiletto info\n",
        stderr);
    return 2;
  }
  // Whatever libraries print must not run into the answer: standard output becomes standard error.
  const int out = dup(STDOUT_FILENO);
  if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  const char* kind = "answer";
  std::string body;
  try {
    force_stand_in();
    libraries_for_planning();
    body = answer(read_all(STDIN_FILENO));
  } catch (const std::exception& error) {
    kind = "failure";
    body = error.what();
  }
  const bool written = write_all(out, plan_builder_header(kind, body.size())) && write_all(out, body);
  std::fflush(nullptr);
  // Without the exit handlers of cuDNN and the CUDA runtime, which expect a driver that works.
  _exit(written ? 0 : 1);
}

int plan_builder_main(int argc, char** argv) { return serve_plan_request(argc, argv, answer_plan_request); }

}  // namespace stiletto::detail::cudnn
