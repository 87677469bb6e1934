// SPDX-License-Identifier: Apache-2.0
// The canonical graph as text and as JSON. Axes are letters in loop order: float32[i,k].
#include "compiler/canonical_text.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "graph/print.hpp"

namespace stiletto::detail {

std::string axis_name(std::size_t axis) {
  constexpr std::size_t letters = 18;  // i … z
  return axis < letters ? std::string(1, static_cast<char>('i' + axis)) : text('x', axis);
}

std::string typed_text(const CanonicalGraph& graph, DType dtype, const AxisMask& axes) {
  const std::string names = graph.axes_text(axes);
  return names.empty() ? text(dtype) : text(dtype, '[', names, ']');
}

std::string sized_text(const CanonicalGraph& graph, DType dtype, const AxisMask& axes) {
  std::string sizes;
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
    if (axes.test(axis)) sizes += text(sizes.empty() ? "" : ", ", axis_name(axis), '=', graph.extents[axis]);
  return sizes.empty() ? text(dtype) : text(dtype, '[', sizes, ']');
}

std::string strides_text(const CanonicalGraph& graph, const Tensor& tensor) {
  std::string strides;
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
    if (tensor.axes.test(axis)) strides += text(strides.empty() ? "" : ", ", tensor.strides[axis]);
  std::string result = strides.empty() ? "" : "strides (" + strides + ")";
  if (tensor.offset != 0) result += text(result.empty() ? "" : " ", "offset ", tensor.offset);
  if (tensor.alignment != 16) result += text(result.empty() ? "" : " ", "align ", tensor.alignment);
  return result;
}

namespace {
/// "[i,1,k]", nothing of a number.
std::string layout_text(const AxisList& layout) {
  std::string result;
  for (const int axis : layout)
    result += (result.empty() ? "[" : ",") + (axis < 0 ? "1" : axis_name(static_cast<std::size_t>(axis)));
  return result.empty() ? result : result + "]";
}
}  // namespace

std::string operands_text(const CanonicalGraph& graph, const Value& value) {
  std::string result = "(";
  const bool structured = row_of(value.op).family == Family::structured;
  for (std::size_t i = 0; i < value.arity; ++i) {
    result += text(i ? ", %" : "%", value.inputs[i]);
    if (structured) result += layout_text(value.layouts[i + 1]);
  }
  if (value.contracted.any() && value.layouts.empty())
    result += ", over " + graph.axes_text(value.contracted);
  return result + attributes_text(value.op, value.attributes) + ")";
}

std::string foreign_text(const Value& value) { return text("result ", value.source, " of all that is read"); }

namespace {

std::string tensor_text(const CanonicalGraph& graph, const Tensor& tensor) {
  const std::string strides = strides_text(graph, tensor);
  return text(tensor.name, ": ", typed_text(graph, tensor.dtype, tensor.axes), strides.empty() ? "" : " ",
              strides);
}

}  // namespace

std::string CanonicalGraph::axes_text(const AxisMask& axes) const {
  std::string result;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (axes.test(axis)) result += text(result.empty() ? "" : ",", axis_name(axis));
  return result;
}

std::string CanonicalGraph::to_string() const {
  std::string result = "graph\n";
  if (!extents.empty()) result += "  axes";
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    result += text(' ', axis_name(axis), '=', extents[axis]);
  if (!extents.empty()) result += '\n';
  if (intermediate_dtype != DType::float32) result += text("  intermediate ", intermediate_dtype, '\n');
  if (compute_dtype != DType::float32) result += text("  compute ", compute_dtype, '\n');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[i];
    result += text("  %", i, " = ");
    if (value.kind == Value::Kind::tensor)
      result += tensor_text(*this, tensors[value.source]);
    else if (value.kind == Value::Kind::scalar)
      result += text("scalar", value.source, ": ", value.dtype);
    else if (value.kind == Value::Kind::foreign)
      result += text(foreign_text(value), ": ", typed_text(*this, value.dtype, value.axes));
    else
      result += text(name_of(value.op), operands_text(*this, value), ": ",
                     typed_text(*this, value.dtype, value.axes));
    result += '\n';
  }
  for (const Store& store : stores)
    result += text("  %", store.value, " -> ", tensor_text(*this, store.tensor), '\n');
  return result;
}

std::string CanonicalGraph::to_json() const {
  auto list = [](const auto& items, const auto& show) {
    std::string result = "[";
    for (std::size_t i = 0; i < items.size(); ++i) result += (i ? ", " : "") + show(items[i], i);
    return result + "]";
  };
  auto axes = [&](const AxisMask& mask) {
    std::string result = "[";
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (mask.test(axis)) result += text(result.size() > 1 ? ", " : "", quoted(axis_name(axis)));
    return result + "]";
  };
  auto tensor = [&](const Tensor& t) {
    std::string strides;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (t.axes.test(axis)) strides += text(strides.empty() ? "" : ", ", t.strides[axis]);
    return text("{\"name\": ", quoted(t.name), ", \"dtype\": \"", t.dtype, "\", \"axes\": ", axes(t.axes),
                ", \"strides\": [", strides, "], \"offset\": ", t.offset, ", \"alignment\": ", t.alignment,
                "}");
  };
  auto layout = [&](const AxisList& axes_of, std::size_t) {
    return list(axes_of, [](int axis, std::size_t) {
      return axis < 0 ? std::string("null") : quoted(axis_name(static_cast<std::size_t>(axis)));
    });
  };
  auto value = [&](const Value& v, std::size_t i) {
    std::string inputs;
    for (std::size_t k = 0; k < v.arity; ++k) inputs += text(k ? ", " : "", v.inputs[k]);
    const char* kind = v.kind == Value::Kind::tensor    ? "tensor"
                       : v.kind == Value::Kind::scalar  ? "scalar"
                       : v.kind == Value::Kind::foreign ? "foreign"
                                                        : name_of(v.op);
    std::string result = text("{\"id\": ", i, ", \"op\": \"", kind, "\", \"dtype\": \"", v.dtype,
                              "\", \"axes\": ", axes(v.axes));
    if (v.kind == Value::Kind::tensor) result += ", \"tensor\": " + tensor(tensors[v.source]);
    if (v.kind == Value::Kind::scalar) result += text(", \"scalar\": ", v.source);
    if (v.kind == Value::Kind::foreign) result += text(", \"result\": ", v.source);
    if (v.arity > 0) result += ", \"inputs\": [" + inputs + "]";
    if (v.contracted.any() && v.layouts.empty()) result += ", \"over\": " + axes(v.contracted);
    if (!v.layouts.empty()) result += ", \"layouts\": " + list(v.layouts, layout);
    const std::string attributes = attributes_text(v.op, v.attributes);
    if (!attributes.empty()) result += ", \"attributes\": " + quoted(attributes.substr(2));
    return result + "}";
  };
  auto store = [&](const Store& s, std::size_t) {
    return text("{\"value\": ", s.value, ", \"tensor\": ", tensor(s.tensor), "}");
  };
  auto extent = [&](std::int64_t e, std::size_t axis) {
    return text("{\"name\": ", quoted(axis_name(axis)), ", \"extent\": ", e, "}");
  };
  return text("{\"axes\": ", list(extents, extent), ",\n \"intermediate_dtype\": \"", intermediate_dtype,
              "\", \"compute_dtype\": \"", compute_dtype, "\",\n \"values\": ", list(values, value),
              ",\n \"stores\": ", list(stores, store), "}");
}

}  // namespace stiletto::detail
