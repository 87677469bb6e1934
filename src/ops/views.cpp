// SPDX-License-Identifier: Apache-2.0
// The public views. On memory (concrete arrays, specs, inputs of a trace) a view is a new shape, strides and
// offset; on a computed value it is recorded as a permute or reshape where the result can still be written in
// one go.
#include "core/device_memory.hpp"
#include "core/text.hpp"
#include "graph/final_layout.hpp"
#include "ops/apply.hpp"
#include "ops/view_geometry.hpp"
#include "stiletto/error.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {

using detail::ArrayAccess;
using detail::ArrayBody;
using detail::Geometry;
using detail::Node;
using detail::Op;
using detail::text;
using detail::Trace;

namespace {

/// An array about to be viewed: its geometry, and how a view of it is made.
class Viewed {
 public:
  Viewed(const Array& array, const char* name) : name_(name), array_(array), trace_(Trace::current()) {
    const ArrayBody& body = ArrayAccess::body(array, name);
    if (body.kind == ArrayBody::Kind::traced || (trace_ != nullptr && body.kind != ArrayBody::Kind::spec)) {
      if (trace_ == nullptr) detail::throw_ended(name, "the array", body);
      node_ = trace_->import(array, name);
      const Node& node = trace_->nodes()[node_];
      computed_ = !trace_->is_leaf_or_view(node_);
      geometry_ = {node.shape, node.strides, 0};
    } else {
      trace_ = nullptr;
      if (body.kind == ArrayBody::Kind::number) array_ = materialized(body);
      geometry_ = {body.shape, body.strides, 0};
    }
  }

  const Geometry& geometry() const { return geometry_; }
  const Shape& shape() const { return geometry_.shape; }
  const char* name() const { return name_; }
  bool is_computed() const { return computed_; }
  const Array& array() const { return array_; }

  detail::Reach bounds() const {
    if (trace_ != nullptr) {
      const detail::Reach whole = trace_->bounds_of(node_);
      const std::int64_t first = trace_->offset_of(node_);
      return {whole.low - first, whole.high - first};
    }
    const ArrayBody& body = *ArrayAccess::body_or_null(array_);
    if (body.kind == ArrayBody::Kind::spec) return detail::reach_of(body.shape, body.strides, name_);
    return {-body.offset, body.storage->bytes * 8 / detail::bits_of(body.dtype) - 1 - body.offset};
  }

  Array view(const Geometry& g) const {
    const ArrayBody& body = *ArrayAccess::body_or_null(array_);
    const std::int64_t first = trace_ != nullptr ? trace_->offset_of(node_) : body.offset;
    detail::check_packing(body.dtype, g.shape, g.strides, first + g.offset, name_);
    if (trace_ != nullptr) return trace_->record_view(node_, g.shape, g.strides, g.offset);
    return detail::make_view(body, g.shape, g.strides, g.offset);
  }

  /// A computed value under another shape that differs in extents of 1 only.
  Array computed_ones(const Shape& shape) const {
    Node node = layout_node(Op::reshape);
    node.final_only = trace_->nodes()[node_].final_only;
    node.shape = shape;
    node.strides = detail::strides_across_ones(geometry_.shape, geometry_.strides, shape);
    return trace_->record(node, name_);
  }
  Array computed_reshape(const Shape& shape) const {
    if (!detail::is_row_major(geometry_.shape, geometry_.strides))
      refuse(text("its result lies in memory as shape ", geometry_.shape, " with strides ", geometry_.strides,
                  ", and a reshape would need row-major order"));
    Node node = layout_node(Op::reshape);
    node.final_only = true;
    node.shape = shape;
    node.strides = detail::row_major(shape);
    return trace_->record(node, name_);
  }
  Array computed_permute(const Dims& axes) const {
    // Below a reshape the axes are other axes: writing them permuted would be a second pass.
    if (!detail::peel_layout(*trace_, node_, permutable_probe()))
      refuse("it is the reshape of a computed value");
    Node node = layout_node(Op::permute);
    node.final_only = true;
    node.attributes = detail::PermuteAttributes{axes};
    node.shape = detail::permute_geometry(geometry_, axes).shape;
    node.strides = detail::row_major(node.shape);
    return trace_->record(node, name_);
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw TraceError(
        text(detail::operation_text(name_), ": %", node_, " is a computed value (",
             name_of(trace_->nodes()[node_].op), "), and ", why,
             "; a computed value can be permuted or reshaped only where it is returned or stored. View the "
             "inputs instead, or view the result outside the function"));
  }

 private:
  Node layout_node(Op op) const {
    const Node& below = trace_->nodes()[node_];
    Node node;
    node.op = op;
    node.dtype = node.operand = below.dtype;
    node.weak = below.weak && below.shape.size() == 0;
    node.arity = 1;
    node.inputs[0] = node_;
    return node;
  }
  /// Strides in which no two axes can be walked as one, so that only permutes and extents of 1 peel off.
  Strides permutable_probe() const {
    Strides probe = geometry_.shape;
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < probe.size(); ++i) {
      probe[i] = stride;
      stride = stride * (geometry_.shape[i] + 1) + 1;
    }
    return probe;
  }
  /// A C++ number as memory, so that it can be viewed.
  Array materialized(const ArrayBody& body) const {
    Array copy = detail::allocate_array(Device::cpu(), {}, body.dtype, name_);
    std::copy_n(body.bytes, detail::bytes_for(body.dtype, 1), static_cast<std::byte*>(copy.raw_data()));
    return copy;
  }

  const char* name_;
  Array array_;
  Trace* trace_;
  std::uint32_t node_ = 0;
  bool computed_ = false;
  Geometry geometry_;
};

Array with_ones(const Viewed& x, const Shape& shape) {
  if (x.is_computed()) return x.computed_ones(shape);
  return x.view({shape, detail::strides_across_ones(x.shape(), x.geometry().strides, shape), 0});
}

Array permute(const Array& array, const Dims* requested) {
  const Viewed x(array, "transpose");
  Dims axes;
  for (std::size_t i = x.shape().size(); i-- > 0;) axes.push_back(static_cast<std::int64_t>(i));
  if (requested != nullptr) axes = detail::resolve_permutation(x.shape(), *requested, x.name());
  const Geometry g = detail::permute_geometry(x.geometry(), axes);
  if (!x.is_computed()) return x.view(g);
  std::int64_t previous = -1;
  bool moves = false;
  for (std::int64_t axis : axes) {
    if (x.shape()[static_cast<std::size_t>(axis)] == 1) continue;
    moves = moves || axis < previous;
    previous = axis;
  }
  return moves ? x.computed_permute(axes) : x.computed_ones(g.shape);
}

}  // namespace

Array transpose(const Array& x) { return permute(x, nullptr); }
Array transpose(const Array& x, Dims axes) { return permute(x, &axes); }

Array reshape(const Array& array, Shape target) {
  const Viewed x(array, "reshape");
  const Shape shape = detail::resolve_reshape(x.shape(), target, x.name());
  if (x.is_computed()) {
    if (detail::same_but_ones(x.shape(), shape)) return x.computed_ones(shape);
    return x.computed_reshape(shape);
  }
  const auto strides = detail::reshape_strides(x.shape(), x.geometry().strides, shape);
  if (!strides)
    throw ShapeError(text(detail::operation_text(x.name()), ": shape ", x.shape(), " with strides ",
                          x.geometry().strides, " has no view of shape ", shape,
                          "; copy() makes it contiguous"));
  return x.view({shape, *strides, 0});
}

Array slice(const Array& array,
            std::vector<Slice> slices) {  // NOLINT(performance-unnecessary-value-param): settled
  const Viewed x(array, "slice");
  const Geometry g = detail::slice_geometry(x.geometry(), slices, x.name());
  if (!x.is_computed()) return x.view(g);
  if (g.shape == x.shape() && g.strides == x.geometry().strides && g.offset == 0) return x.array();
  x.refuse("what the slice leaves out would be computed only to be thrown away");
}

Array squeeze(const Array& array, Axes axes) {
  const Viewed x(array, "squeeze");
  return with_ones(x, detail::squeeze_shape(x.shape(), axes, x.name()));
}

Array expand_dims(const Array& array, Axes axes) {
  const Viewed x(array, "expand_dims");
  return with_ones(x, detail::expand_shape(x.shape(), axes, x.name()));
}

Array broadcast_to(const Array& array, Shape shape) {
  const Viewed x(array, "broadcast_to");
  const Geometry g = detail::broadcast_geometry(x.geometry(), shape, x.name());
  if (!x.is_computed()) return x.view(g);
  if (x.shape().size() == 0) return detail::apply_fill(array, shape, array.dtype(), x.name());
  if (detail::same_but_ones(x.shape(), shape)) return x.computed_ones(shape);
  x.refuse("operations broadcast it by themselves");
}

Array as_strided(const Array& array, Shape shape, Strides strides, std::int64_t offset) {
  const Viewed x(array, "as_strided");
  if (x.is_computed()) x.refuse("it has no memory to stride over");
  return x.view(detail::as_strided_geometry(shape, strides, offset, x.bounds(), x.name()));
}

Array Array::copy() const {
  const ArrayBody& body = ArrayAccess::body(*this, "copy");
  if (body.kind == ArrayBody::Kind::spec)
    throw TraceError(text(detail::operation_text("copy"), ": a spec (", body.dtype, body.shape,
                          ") has no memory to copy; pass an array, inside a trace as an argument"));
  if (body.device.is_cuda() && Trace::current() == nullptr && has_memory())
    return detail::copy_on_device(body, "copy");
  if (body.dtype == DType::float8_e8m0) {  // scales: no operation writes them, so their codes are moved here
    if (Trace::current() != nullptr)
      throw DTypeError(text(detail::operation_text("copy"),
                            ": float8_e8m0 holds block scales; copy them outside the trace"));
    const std::vector<std::uint8_t> codes = to_vector<std::uint8_t>();
    const Array copy = empty(body.shape, body.dtype, body.device);
    std::copy(codes.begin(), codes.end(), static_cast<std::uint8_t*>(copy.raw_data()));
    return copy;
  }
  return detail::apply_cast(Op::copy, *this, body.dtype);
}

}  // namespace stiletto
