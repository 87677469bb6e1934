// SPDX-License-Identifier: Apache-2.0
// Building a plan in another process. Where a machine has a driver, cuDNN builds only for the GPUs behind it;
// a plan for any other GPU is built by the program stiletto-plan-builder, which loads the driver stand-in
// instead of the driver.
#pragma once
#include <chrono>
#include <cstddef>
#include <string>

#include "stiletto/export.hpp"

namespace stiletto::detail::cudnn {

/// Sends the request to a new process of the plan builder and returns its answer, which answer_plan_request
/// has written there. DeviceError where the program is not found, ends early or takes longer than `deadline`.
std::string run_plan_builder(const std::string& request,
                             std::chrono::milliseconds deadline = std::chrono::minutes(10));

/// What the plan builder does with a request: bytes of any kind, both ways.
using PlanAnswer = std::string (*)(const std::string& request);

/// The other end: reads one request from standard input, answers it with the driver stand-in in place of a
/// driver, and ends the process. What `answer` throws reaches the caller of run_plan_builder as a DeviceError
/// with the same text.
int serve_plan_request(int argc, char** argv, PlanAnswer answer);

/// The line before an answer's or a failure's bytes.
std::string plan_builder_header(const char* kind, std::size_t length);

/// The whole of the program stiletto-plan-builder, in the library so that the two are always of one version.
STILETTO_API int plan_builder_main(int argc, char** argv);

}  // namespace stiletto::detail::cudnn
