// SPDX-License-Identifier: Apache-2.0
// What cuDNN says when it refuses: its log of every engine asked, taken apart.
#pragma once
#include <string>
#include <vector>

#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {

/// One reason per engine of the message; the message itself, on one line, under the name `step` where it
/// speaks of none.
std::vector<EngineReason> engine_reasons(const std::string& step, const std::string& message);

/// Without line breaks and runs of spaces.
std::string one_line(const std::string& message);

}  // namespace stiletto::detail::cudnn
