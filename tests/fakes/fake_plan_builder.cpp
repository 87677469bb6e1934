// SPDX-License-Identifier: Apache-2.0
// A plan builder that does what the request's first word says, so that each way to fail can be tested.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "backends/cudnn/plan_builder_process.hpp"

namespace {

std::string answer(const std::string& request) {
  const std::string word = request.substr(0, request.find(' '));
  if (word == "refuse") throw std::invalid_argument("the graph is refused, for a test");
  if (word == "print") std::puts("a library prints something");
  if (word == "abort") {
    std::fputs("a last word\n", stderr);
    std::abort();
  }
  if (word == "leave") _exit(3);
  if (word == "sleep") sleep(60);
  return request;
}

}  // namespace

int main(int argc, char** argv) { return stiletto::detail::cudnn::serve_plan_request(argc, argv, answer); }
