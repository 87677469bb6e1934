// SPDX-License-Identifier: Apache-2.0
// Golden texts of cuDNN graphs: what the lowering makes of a function, without cuDNN and without a GPU.
#pragma once
#include <string>

#include "backends/cudnn/geometry.hpp"
#include "backends/cudnn/lower.hpp"
#include "golden/golden.hpp"
#include "unit/trace_support.hpp"

namespace golden {

/// The graph of the first way of placing a function's axes that can be lowered; ways before it with the
/// reason why they cannot, ways after it by name, but not the
/// last resort.
template <class F, class... Examples>
std::string engine_text(const stiletto::CompileOptions& options, F f, const Examples&... examples) {
  namespace cudnn = stiletto::detail::cudnn;
  const auto lowered = unit::lower(options, f, examples...);
  std::string refusal, result;
  bool found = false;
  for (const cudnn::Geometry& way : cudnn::geometries(lowered.graph, refusal)) {
    if (found && way.carrier == cudnn::Carrier::ones) continue;
    try {
      const std::string text = cudnn::lower(lowered.graph, way).to_string();
      const bool other = way.summed || way.carrier == cudnn::Carrier::gathers;
      result += found && !other ? "else " + way.form + "\n" : text;
      found = true;
    } catch (const cudnn::NotLowered& not_lowered) {
      result += "not " + way.form + ": " + not_lowered.reason + "\n";
    }
  }
  return refusal.empty() ? result : result + "nothing: " + refusal + "\n";
}
template <class F, class... Examples>
  requires stiletto::Traceable<F>
std::string engine_text(F f, const Examples&... examples) {
  return engine_text(stiletto::CompileOptions{}, f, examples...);
}

/// The graph of the last resort, the way that goes behind a product of ones; empty where there is none.
template <class F, class... Examples>
std::string text_behind_ones(F f, const Examples&... examples) {
  namespace cudnn = stiletto::detail::cudnn;
  const auto lowered = unit::lower(stiletto::CompileOptions{}, f, examples...);
  std::string refusal;
  for (const cudnn::Geometry& way : cudnn::geometries(lowered.graph, refusal))
    if (way.carrier == cudnn::Carrier::ones) return cudnn::lower(lowered.graph, way).to_string();
  return "";
}

}  // namespace golden
