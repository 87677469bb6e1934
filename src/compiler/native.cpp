// SPDX-License-Identifier: Apache-2.0
// What a user can do with a compiled graph without Stiletto: the graph of cudnn-frontend behind it, and the
// pointers that it is executed with.
#include "compiler/call_frame.hpp"
#include "compiler/executable.hpp"
#include "core/text.hpp"
#include "stiletto/cudnn.hpp"
#include "stiletto/error.hpp"

namespace stiletto {
namespace detail {

std::shared_ptr<const Executable> Executable::assemble(Parts parts) {
  const auto result = std::make_shared<Executable>();
  Executable& e = *result;
  e.trace_text_ = std::move(parts.text);
  e.arguments_ = std::move(parts.arguments);
  for (const ArgumentSpec& argument : e.arguments_) {
    e.structures_.push_back({1, 0});
    if (argument.number) e.numbers_.push_back({argument.dtype, false, {}});
  }
  e.lowered_ = std::move(parts.lowered);
  e.plan_ = std::move(parts.plan);
  e.device_ = parts.device;
  e.complete();
  return result;
}

NativePack Executable::native_pack(BindingTable& table) const {
  const FrameLease frame;
  take_bindings(table, *frame);
  return plan_->native_pack(resolve(*frame, true), table.number_bytes);
}

namespace {

/// The plan's graph. ArgumentError, beginning with the operation, where there is none.
void* native_graph_of(const Executable& executable, const char* operation) {
  const Plan* const plan = executable.plan();
  if (void* const graph = plan != nullptr ? plan->native_graph() : nullptr) return graph;
  throw ArgumentError(text(operation, ": this Graph ",
                           executable.device().is_cpu()
                               ? "runs on the CPU, where there is no cuDNN; compile it for arrays on a GPU"
                           : plan == nullptr
                               ? "computes nothing, so that there is no graph of cuDNN's"
                               : "only fills memory, which takes no graph of cuDNN's; call it"));
}

}  // namespace
}  // namespace detail

std::shared_ptr<cudnn_frontend::graph::Graph> cudnn_graph(const Graph& graph) {
  auto executable = detail::Executable::of(graph, "cudnn_graph");
  void* const native = detail::native_graph_of(*executable, "cudnn_graph");
  return {std::move(executable), static_cast<cudnn_frontend::graph::Graph*>(native)};
}

std::vector<std::pair<std::int64_t, void*>> variant_pack(const Bindings& bindings) {
  detail::BindingTable& table = detail::Executable::of(bindings, "variant_pack");
  detail::native_graph_of(*table.executable, "variant_pack");
  return table.executable->native_pack(table);
}

}  // namespace stiletto
