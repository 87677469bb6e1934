// SPDX-License-Identifier: Apache-2.0
#include "plans/table.hpp"

#include "backends/cudnn/libraries.hpp"

namespace plans {

using stiletto::Target;
namespace cudnn = stiletto::detail::cudnn;

const std::vector<Group>& groups() {
  static const auto& all = *new std::vector<Group>([] {
    std::vector<Group> result;
    for (auto* part :
         {pointwise_groups, product_groups, reduction_groups, dtype_groups, coverage_groups, attention_groups,
          attention_option_groups, norm_groups, convolution_groups, blockscaled_groups})
      for (Group& group : part()) result.push_back(std::move(group));
    return result;
  }());
  return all;
}

bool is_here(const std::string& target) {
  static const std::string here = cudnn::has_driver() ? Target::current().to_json() : "";
  return target == "h200" && here.find("H200") != std::string::npos;
}

Answer ask(const Row& row, const std::string& target) {
  CompileOptions options = row.options;
  const bool cpu = target == "cpu";
  if (!cpu && !is_here(target)) options.target = Target::named(target);
  const auto device = cpu ? std::optional(stiletto::Device::cpu()) : std::nullopt;
  Arrays arguments;
  for (const Operand& operand : row.operands)
    arguments.push_back(stiletto::spec(operand.shape, operand.dtype, operand.strides, device));
  try {
    const auto compiled = stiletto::compile(options, row.function, arguments);
    return {true, compiled.workspace(), compiled.graph().to_string()};
  } catch (const stiletto::UnsupportedGraphError& error) {
    return {false, 0, error.what()};
  }
}

const std::string& why_no_plans() {
  static const std::string reason = [] {
    try {
      cudnn::libraries_for_planning();
      return std::string();
    } catch (const stiletto::DeviceError& error) {
      return std::string(error.what());
    }
  }();
  return reason;
}

std::size_t cudnn_version() { return cudnn::libraries_for_planning().cudnn_version; }

Tally& tally() {
  static Tally counts;
  return counts;
}

}  // namespace plans
