// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/fill_plan.hpp"

#include <algorithm>
#include <vector>

#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/geometry.hpp"
#include "backends/cudnn/profiler_range.hpp"
#include "backends/cudnn/streams.hpp"
#include "backends/cudnn/target.hpp"
#include "core/array_body.hpp"
#include "core/device_memory.hpp"
#include "core/text.hpp"
#include "stiletto/ops.hpp"

namespace stiletto::detail::cudnn {
namespace {

class FillPlan : public Plan {
 public:
  FillPlan(const CanonicalGraph& graph, Device device, bool present) : device_(device), present_(present) {
    for (const Store& store : graph.stores) {
      Fill fill{
          graph.values[store.value].source, graph.values[store.value].dtype, store.tensor.dtype, {}, {}};
      // Row-major over the axes that the memory has, the outermost first.
      std::vector<std::size_t> axes = axes_of(store.tensor.axes, graph.extents.size());
      std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
        return store.tensor.strides[a] > store.tensor.strides[b];
      });
      std::vector<std::int64_t> extents, strides;
      for (std::size_t axis : axes) {
        extents.push_back(graph.extents[axis]);
        strides.push_back(store.tensor.strides[axis]);
      }
      fill.shape = Shape(std::span<const std::int64_t>(extents));
      fill.strides = Strides(std::span<const std::int64_t>(strides));
      fills_.push_back(fill);
    }
  }

  std::size_t workspace() const override { return 0; }
  bool allows_in_place(std::size_t, std::size_t) const override { return true; }
  std::string describe() const override { return text("  ", fills_.size(), " plain fills\n"); }

  void execute(const Invocation& invocation) const override {
    if (!present_) throw_absent_gpu();
    const ProfilerRange range("stiletto: fill");
    const CurrentDevice current(device_.index());
    use_current_stream(device_.index());
    for (std::size_t s = 0; s < fills_.size(); ++s) {
      const Fill& fill = fills_[s];
      // Converted like any cast, by the CPU.
      const Array element =
          cast(make_number(invocation.scalars[fill.scalar], fill.number, false), fill.dtype);
      write(fill, invocation.stores[s], element.raw_data());
    }
  }

 private:
  struct Fill {
    std::uint32_t scalar;
    DType number, dtype;
    Shape shape;
    Strides strides;
  };

  void write(const Fill& fill, void* to, const void* element) const {
    DeviceMemory& memory = device_memory(device_, "fill");
    const std::size_t bytes = bytes_for(fill.dtype, 1);
    if (is_row_major(fill.shape, fill.strides)) {
      memory.fill(device_, to, element, bytes, static_cast<std::size_t>(element_count_unchecked(fill.shape)),
                  "fill");
      return;
    }
    const auto one = memory.allocate(device_, bytes);
    memory.fill(device_, one->data, element, bytes, 1, "fill");
    StridedCopy copy{fill.shape, fill.strides, fill.strides, bytes};
    for (std::size_t i = 0; i < fill.shape.size(); ++i) {
      copy.to[i] = byte_offset(fill.dtype, fill.strides[i]);
      copy.from[i] = 0;
    }
    memory.copy(device_, to, one->data, copy, "fill");
  }

  Device device_;
  bool present_;
  std::vector<Fill> fills_;
};

}  // namespace

std::unique_ptr<const Plan> fill_plan(const CanonicalGraph& graph, Device device, bool present) {
  const bool constant = std::all_of(graph.stores.begin(), graph.stores.end(), [&](const Store& store) {
    return graph.values[store.value].kind == Value::Kind::scalar &&
           store.tensor.axes.count() <= Dims::max_rank && store.tensor.dtype != DType::float4_e2m1;
  });
  return constant ? std::make_unique<FillPlan>(graph, device, present) : nullptr;
}

}  // namespace stiletto::detail::cudnn
