// SPDX-License-Identifier: Apache-2.0
// Which operations cuDNN has no node for, and none that they could be made of.
#pragma once
#include <algorithm>
#include <iterator>
#include <string>

#include "backends/cudnn/frontend.hpp"
#include "graph/op_table.hpp"

namespace support {

/// Empty where there is one, else what the refusal says.
inline std::string missing_mode(stiletto::detail::Op op) {
  using stiletto::detail::Op;
  static constexpr Op composed[] = {Op::cast, Op::maximum, Op::minimum, Op::clamp, Op::square};
  const bool there = std::find(std::begin(composed), std::end(composed), op) != std::end(composed) ||
                     stiletto::detail::cudnn::has_mode(op);
  return there ? "" : std::string("cuDNN has no ") + name_of(op);
}

inline std::string missing_mode(const std::string& name) {
  for (std::size_t i = 0; i < stiletto::detail::op_count; ++i)
    if (stiletto::detail::op_rows[i].name == name) return missing_mode(static_cast<stiletto::detail::Op>(i));
  return "";
}

}  // namespace support
