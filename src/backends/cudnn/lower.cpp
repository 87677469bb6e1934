// SPDX-License-Identifier: Apache-2.0
// Values to nodes. Every value is asked for under a layout: the geometry's for results, and for the operands
// of a product the same with the summed axis in its place.
#include "backends/cudnn/lower.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "backends/cudnn/attention_parts.hpp"
#include "backends/cudnn/block_scaling.hpp"
#include "backends/cudnn/graph_builder.hpp"
#include "backends/cudnn/graph_stores.hpp"
#include "backends/cudnn/lower_checks.hpp"
#include "backends/cudnn/lower_structured.hpp"
#include "backends/cudnn/never_nan.hpp"
#include "backends/cudnn/pointwise.hpp"
#include "compiler/expression_text.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cudnn {
namespace {

class Lowering {
 public:
  Lowering(const CanonicalGraph& graph, const Geometry& geometry)
      : graph_(graph),
        geometry_(geometry),
        builder_(geometry.space.size(), graph.intermediate_dtype, graph.compute_dtype) {
    builder_.graph_.form = geometry.form;
  }

  EngineGraph run() {
    if (graph_.compute_dtype == DType::float64)
      for (const Value& value : graph_.values)
        if (value.kind == Value::Kind::operation && value.contracted.any() && value.dtype != DType::float64)
          throw NotLowered{"cuDNN does not accumulate narrower types in float64"};
    // Beyond any engine, and values are lowered by recursion.
    constexpr std::size_t most_values = 2000;
    if (graph_.values.size() > most_values)
      throw NotLowered{
          text("a graph of ", graph_.values.size(), " values; cuDNN is given at most ", most_values)};
    check_block_scaling(graph_);
    for (const Value& value : graph_.values) {
      bool behind = value.kind == Value::Kind::operation && value.op == Op::matmul;
      for (std::size_t i = 0; i < value.arity; ++i) behind = behind || behind_product_[value.inputs[i]];
      behind_product_.push_back(behind);
    }
    const bool pointwise = std::all_of(graph_.values.begin(), graph_.values.end(), [](const Value& value) {
      return value.kind != Value::Kind::operation || row_of(value.op).family == Family::pointwise;
    });
    if (pointwise)
      for (const Part& part : geometry_.space) builder_.whole.push_back(part.extent);
    if (geometry_.carrier == Carrier::ones) choose_carried();
    for (const Store& store : graph_.stores)
      stored_.push_back(quantized_by(store) ? quantized(store) : lower(store.value, geometry_.space));
    for (std::size_t s = 0; s < graph_.stores.size(); ++s) write(s, stored_[s]);
    check_lowered(builder_.graph_, graph_);
    return std::move(builder_.graph_);
  }

 private:
  using Dims = std::vector<std::int64_t>;

  static Dims dims_of(AxisMask axes, const Layout& layout) {
    Dims dims;
    for (const Part& part : layout) dims.push_back(has(axes, part) ? part.extent : 1);
    return dims;
  }
  static bool has(AxisMask axes, const Part& part) {
    return part.axis >= 0 && axes.test(static_cast<std::size_t>(part.axis));
  }

  /// Memory under a layout; a dimension of 1 gets the stride that packing it would give.
  EngineTensor memory(const Tensor& tensor, const Layout& layout) const {
    EngineTensor t;
    t.dtype = tensor.dtype;
    t.alignment = tensor.alignment;
    t.dims = dims_of(tensor.axes, layout);
    t.strides.assign(layout.size(), 1);
    std::vector<std::int64_t> last(graph_.extents.size());  // index along each axis
    std::int64_t reach = 1;
    for (std::size_t i = layout.size(); i-- > 0;) {
      if (has(tensor.axes, layout[i])) {
        const auto axis = static_cast<std::size_t>(layout[i].axis);
        last[axis] += (layout[i].extent - 1) * layout[i].step;
        t.strides[i] = tensor.strides[axis] * layout[i].step;
        if (t.strides[i] < 0)
          throw NotLowered{text(tensor.name,
                                " is walked backwards along an axis that others walk forwards; "
                                "cuDNN takes no negative strides")};
        reach = std::max(reach, t.strides[i] * t.dims[i]);
      } else {
        t.strides[i] = reach;
      }
    }
    for (std::size_t axis = 0; axis < last.size(); ++axis)
      if (tensor.axes.test(axis) && last[axis] != graph_.extents[axis] - 1)
        throw NotLowered{
            text(tensor.name, " has an axis that a product or reduction beside it does not have")};
    return t;
  }

  std::uint32_t lower(std::uint32_t index, const Layout& layout) {
    for (const auto& [key, known] : lowered_[index])
      if (key == layout) return known;
    const Value& value = graph_.values[index];
    const std::uint32_t result = compute(value, layout);
    // See check_prologues: before float32 products each use reads memory by a tensor of its own.
    const bool once =
        value.kind == Value::Kind::tensor && value.dtype == DType::float32 && layout != geometry_.space;
    if (!once) lowered_[index].emplace_back(layout, result);
    return result;
  }

  std::uint32_t compute(const Value& value, const Layout& layout) {
    if (value.kind == Value::Kind::scalar) return builder_.number(value.source);
    if (value.kind == Value::Kind::tensor) {
      EngineTensor t = memory(graph_.tensors[value.source], layout);
      t.role = EngineTensor::Role::input;
      t.source = value.source;
      if (geometry_.carrier == Carrier::gathers && t.dims.back() > 1 && t.strides.back() != 1)
        return gathered(std::move(t));
      const std::uint32_t x = builder_.add(std::move(t));
      if (&value != carried_) return x;
      return builder_.pointwise(Op::multiply, {product_of_ones(), x}, builder_.held(value.dtype));
    }
    switch (row_of(value.op).family) {
      case Family::matmul:
        return product(value, layout);
      case Family::reduction:
        return reduction(value, layout);
      case Family::softmax:
        return softmax(value, layout);
      case Family::structured:
        return dequantized(value, layout);
      default: {
        std::vector<std::uint32_t> inputs;
        inputs.reserve(value.arity);
        for (std::size_t i = 0; i < value.arity; ++i) inputs.push_back(lower(value.inputs[i], layout));
        const auto index = static_cast<std::size_t>(&value - graph_.values.data());
        return lower_pointwise(builder_, value, inputs, operand_dtypes(value),
                               !behind_product_[index] && layout == geometry_.space);
      }
    }
  }

  std::vector<DType> operand_dtypes(const Value& value) const {
    std::vector<DType> dtypes;
    dtypes.reserve(value.arity);
    for (std::size_t i = 0; i < value.arity; ++i) dtypes.push_back(graph_.values[value.inputs[i]].dtype);
    return dtypes;
  }

  // ---- products ----

  static Part& row_of_layout(Layout& layout) { return layout[layout.size() - 2]; }
  static Part& column_of_layout(Layout& layout) { return layout[layout.size() - 1]; }

  std::uint32_t product(const Value& value, const Layout& layout) {
    Part inner;
    if (value.contracted.count() > 1) throw NotLowered{"a product over more than one axis that do not merge"};
    for (std::size_t axis = 0; axis < graph_.extents.size(); ++axis)
      if (value.contracted.test(axis)) inner = {static_cast<int>(axis), graph_.extents[axis], 1};
    std::uint32_t left = value.inputs[0], right = value.inputs[1];
    if (behind_product_[left] || behind_product_[right])
      throw NotLowered{has_attention_in_parts(graph_)
                           ? "a product of the softmax of a product"
                           : "a product of a product; store the first and multiply it in a call of its own"};
    if (inner.axis >= 0 && !(has(graph_.values[left].axes, inner) && has(graph_.values[right].axes, inner)))
      throw NotLowered{"an operand of a product that repeats along the summed axis, which cuDNN reads once"};
    Layout rows = layout, columns = layout;
    // (a·b)ᵀ is bᵀ·aᵀ: whichever operand has the axis that lies in the rows is the left one.
    if (has(graph_.values[right].axes, row_of_layout(rows)) &&
        !has(graph_.values[left].axes, row_of_layout(rows)))
      std::swap(left, right);
    column_of_layout(rows) = inner;
    row_of_layout(columns) = inner;
    std::uint32_t a = operand(left, rows), b = operand(right, columns);
    if (builder_.at(a).dtype != builder_.at(b).dtype) {  // engines want one type; the common one holds both
      for (std::uint32_t operand : {a, b})
        if (!is_floating(builder_.at(operand).dtype) && !is_float8(builder_.at(operand).dtype))
          throw NotLowered{text("a product of ", builder_.at(a).dtype, " and ", builder_.at(b).dtype,
                                "; cast the integers first")};
      a = builder_.convert(a, graph_.values[left].dtype, value.dtype);
      b = builder_.convert(b, graph_.values[right].dtype, value.dtype);
    }
    const auto& attributes = std::get<MatmulAttributes>(value.attributes);
    Dims dims = dims_of(product_axes(value), layout);
    for (std::size_t i = 0; i + 2 < dims.size(); ++i)
      if (dims[i] != layout[i].extent)
        throw NotLowered{
            "a product that others broadcast along a batch axis, which cuDNN reads at wrong places"};
    std::uint32_t result = multiply(a, b, value.dtype, std::move(dims));
    if (attributes.alpha.value != 1) result = scaled(result, attributes.alpha.value, value.dtype);
    if (value.arity < 3) return result;
    if (is_integer(value.dtype))
      throw NotLowered{text("beta of ", value.dtype, " products: cuDNN adds in float32, which is not exact")};
    if (product_axes(value).none())
      throw NotLowered{"beta of a product with a single element, which came out wrong on a GPU"};
    std::uint32_t c = lower(value.inputs[2], layout);
    if (attributes.beta.value != 1) c = scaled(c, attributes.beta.value, value.dtype);
    return builder_.pointwise(Op::add, {result, c}, builder_.held(value.dtype));
  }

  AxisMask product_axes(const Value& value) const {
    return (graph_.values[value.inputs[0]].axes | graph_.values[value.inputs[1]].axes) & ~value.contracted;
  }

  std::uint32_t scaled(std::uint32_t x, double factor, DType dtype) {
    if (is_integer(dtype))
      throw NotLowered{text("alpha and beta of ", dtype, " products are not exact in cuDNN's float32")};
    return builder_.pointwise(Op::multiply, {x, builder_.constant(factor)}, builder_.held(dtype));
  }

  /// A computed operand is held at its own type, as if it had been written to memory.
  std::uint32_t operand(std::uint32_t index, const Layout& layout) {
    const Value& value = graph_.values[index];
    if (value.kind == Value::Kind::scalar) throw NotLowered{"a product with a number as an operand"};
    return lower(index, layout);
  }

  std::uint32_t multiply(std::uint32_t a, std::uint32_t b, DType dtype, Dims dims) {
    const bool integers = is_integer(dtype);
    const DType compute = integers ? DType::int32 : builder_.compute_of(dtype);
    return builder_.node(Op::matmul, {a, b}, integers ? DType::int32 : builder_.held(dtype), std::move(dims),
                         compute);
  }

  // ---- products of ones ----

  /// What is multiplied by 1: the first memory of floating-point numbers over the most axes.
  void choose_carried() {
    for (const Value& value : graph_.values) {
      if (value.kind != Value::Kind::tensor || !is_floating(value.dtype) || bits_of(value.dtype) > 32)
        continue;
      if (carried_ == nullptr || value.axes.count() > carried_->axes.count()) carried_ = &value;
    }
    if (carried_ == nullptr)
      throw NotLowered{"no floating-point operand that a product of ones could multiply"};
    // Over more axes than its own it would be summed once more for each of them, and is read at wrong places.
    for (const Part& part : geometry_.space)
      if (part.extent > 1 && !has(carried_->axes, part))
        throw NotLowered{"no floating-point operand over all axes that a product of ones could multiply"};
  }

  /// 1 over all dimensions: a column of ones, the same for every batch, times a row of ones.
  std::uint32_t product_of_ones() {
    if (product_of_ones_) return *product_of_ones_;
    const std::int64_t batches = geometry_.space[0].extent, rows = geometry_.space[1].extent,
                       columns = geometry_.space[2].extent;
    const std::uint32_t a = ones(DType::float16, {batches, rows, 1}, {batches == 1 ? 1 : 0, 1, 1});
    const std::uint32_t b = ones(DType::float16, {1, 1, columns}, {columns, columns, 1});
    product_of_ones_ = multiply(a, b, DType::float32, {batches, rows, columns});
    return *product_of_ones_;
  }

  /// A matrix whose rows are not contiguous, of which each is a product of its own with a single one.
  std::uint32_t gathered(EngineTensor t) {
    if (t.dtype != DType::float16 && t.dtype != DType::bfloat16)
      throw NotLowered{text(graph_.tensors[t.source].name, " lies in another order than the result, and ",
                            t.dtype,
                            " operands of a product are rounded; pass a copy of it made outside the function "
                            "in the order of the result")};
    Dims left{geometry_.space[0].extent, 1, 1}, whole = left;
    whole[2] = t.dims[2];
    t.strides[1] = 1;  // the summed dimension, of one element
    const DType dtype = t.dtype;
    const std::uint32_t a = ones(dtype, std::move(left), {0, 1, 1}), b = builder_.add(std::move(t));
    return multiply(a, b, DType::float32, std::move(whole));
  }

  std::uint32_t ones(DType dtype, Dims dims, Dims strides) {
    EngineTensor t;
    t.role = EngineTensor::Role::ones;
    t.dtype = dtype;
    t.dims = std::move(dims);
    t.strides = std::move(strides);
    return builder_.add(std::move(t));
  }

  // ---- reductions ----

  std::uint32_t reduction(const Value& value, const Layout& layout) {
    if (value.contracted.none()) return single(value, layout);
    check_own_axes(value);
    if (geometry_.summed) return sum_as_product(value, layout);
    std::uint32_t x = lower(value.inputs[0], layout);
    check_exact(value);
    Op op = value.op;
    if (op == Op::logsumexp) return logsumexp(value, x, layout);
    if (op == Op::norm1) {
      x = builder_.pointwise(Op::abs, {x}, builder_.held(value.dtype));
      op = Op::sum;
    }
    if (op == Op::norm2) {
      x = builder_.pointwise(Op::multiply, {x, x}, builder_.held(value.dtype));
      x = reduce(Op::sum, x, value.dtype, dims_of(value.axes, layout));
      return builder_.pointwise(Op::sqrt, {x}, builder_.held(value.dtype));
    }
    if (op == Op::max || op == Op::min || (op == Op::abs_max && !is_never_nan(graph_, value.inputs[0])))
      throw NotLowered{
          text("cuDNN's ", name_of(op), " over an axis drops NaN",
               op == Op::abs_max ? "; take it out first, as in abs_max(where(x == x, x, 0))" : "")};
    if (op == Op::mean) {
      x = share_of_mean(x, value);
      op = Op::sum;
    }
    return reduce(op, x, value.dtype, dims_of(value.axes, layout));
  }

  std::uint32_t reduce(Op op, std::uint32_t x, DType dtype, Dims dims) {
    return builder_.node(op, {x}, builder_.held(dtype), std::move(dims), builder_.compute_of(dtype));
  }

  void check_own_axes(const Value& value) const {
    if ((value.contracted & graph_.values[value.inputs[0]].axes) != value.contracted)
      throw NotLowered{text(name_of(value.op), " over an axis along which its operand repeats")};
  }

  /// What a term or sum of terms adds to the mean.
  std::uint32_t share_of_mean(std::uint32_t x, const Value& value) {
    return scaled(x, 1 / static_cast<double>(graph_.size_of(value.contracted)), DType::float32);
  }

  void check_exact(const Value& value) const {
    if (is_integer(value.dtype) || value.dtype == DType::boolean)
      throw NotLowered{text(name_of(value.op), " of ", graph_.values[value.inputs[0]].dtype,
                            " is not exact in cuDNN's float32")};
  }

  /// Every axis has extent 1: what is left of the operation.
  std::uint32_t single(const Value& value, const Layout& layout) {
    const std::uint32_t x = lower(value.inputs[0], layout);
    const DType held = builder_.held(value.dtype);
    if (value.op == Op::abs_max || value.op == Op::norm1 || value.op == Op::norm2) {
      const DType from = graph_.values[value.inputs[0]].dtype;
      if (from == value.dtype && from != DType::uint8) check_exact(value);
      return builder_.pointwise(Op::abs, {x}, held);
    }
    return builder_.at(x).dtype == held
               ? x
               : builder_.convert(x, graph_.values[value.inputs[0]].dtype, value.dtype);
  }

  std::uint32_t sum_as_product(const Value& value, const Layout& layout) {
    check_exact(value);
    const Value& x = graph_.values[value.inputs[0]];
    if (!has(value.contracted, *geometry_.summed)) throw NotLowered{"sums over different axes in one graph"};
    if (x.dtype != DType::float16 && x.dtype != DType::bfloat16)
      throw NotLowered{text("a sum as a product with ones would round ", x.dtype, " operands")};
    check_exact_prologue(value.inputs[0]);
    Layout columns = layout;
    row_of_layout(columns) = *geometry_.summed;
    const std::uint32_t b = lower(value.inputs[0], columns);
    if (builder_.at(b).role == EngineTensor::Role::intermediate) builder_.at(b).dtype = x.dtype;
    const Dims dims = dims_of(x.axes, layout);
    Dims row(layout.size(), 1), strides(layout.size(), geometry_.summed->extent);
    row.back() = geometry_.summed->extent;
    strides.back() = 1;
    std::uint32_t result =
        multiply(ones(x.dtype, std::move(row), std::move(strides)), b, DType::float32, dims);
    if (value.op == Op::mean) result = share_of_mean(result, value);
    const Dims left = dims_of(value.axes, layout);
    return left == dims ? result : reduce(Op::sum, result, DType::float32, left);
  }

  /// A prologue is rounded to the operand's type, so every value in it has to be exact there: memory, casts,
  /// and what chooses among exact values or changes their signs.
  void check_exact_prologue(std::uint32_t index) const {
    const Value& value = graph_.values[index];
    if (value.kind != Value::Kind::operation || value.op == Op::cast || value.dtype == DType::boolean) return;
    static constexpr Op exact[] = {Op::negate, Op::abs,     Op::relu,    Op::where,
                                   Op::copy,   Op::maximum, Op::minimum, Op::clamp};
    if (std::find(std::begin(exact), std::end(exact), value.op) == std::end(exact))
      throw NotLowered{text("the sum of a ", name_of(value.op),
                            " as a product with ones would round each term to ", value.dtype)};
    for (std::size_t i = 0; i < value.arity; ++i) check_exact_prologue(value.inputs[i]);
  }

  // ---- composites ----

  /// The sum of exp(x − shift), and x − shift's exponentials.
  struct Exponentials {
    std::uint32_t terms, sum;
  };
  Exponentials exponentials(std::uint32_t x, std::uint32_t shift, DType dtype, const Dims& dims) {
    const DType d = builder_.held(dtype);
    const std::uint32_t terms =
        builder_.pointwise(Op::exp, {builder_.pointwise(Op::subtract, {x, shift}, d)}, d);
    return {terms, reduce(Op::sum, terms, dtype, dims)};
  }

  std::uint32_t logsumexp(const Value& value, std::uint32_t x, const Layout& layout) {
    const Dims dims = dims_of(value.axes, layout);
    const DType d = builder_.held(value.dtype);
    const std::uint32_t top = reduce(Op::max, x, value.dtype, dims);
    // An infinite maximum would give infinity minus infinity; shifting by 0 lets the exponentials say what is
    // right.
    const std::uint32_t infinity = builder_.constant(std::numeric_limits<double>::infinity());
    const std::uint32_t finite =
        builder_.pointwise(Op::less, {builder_.pointwise(Op::abs, {top}, d), infinity}, DType::boolean);
    const std::uint32_t shift = builder_.select(finite, top, builder_.constant(0), d);
    const std::uint32_t total = exponentials(x, shift, value.dtype, dims).sum;
    return builder_.pointwise(Op::add, {builder_.pointwise(Op::log, {total}, d), shift}, d);
  }

  std::uint32_t softmax(const Value& value, const Layout& layout) {
    check_own_axes(value);
    const std::uint32_t x = lower(value.inputs[0], layout);
    const Dims dims = dims_of(value.axes & ~value.contracted, layout);
    const std::uint32_t top = reduce(Op::max, x, value.dtype, dims);
    const auto [terms, sum] = exponentials(x, top, value.dtype, dims);
    return builder_.pointwise(Op::divide, {terms, sum}, builder_.held(value.dtype));
  }

  // ---- block scaling ----

  std::uint32_t dequantized(const Value& value, const Layout& layout) {
    const std::uint32_t elements = lower(value.inputs[0], layout);
    return add_dequantize(builder_, graph_, value, layout, elements);
  }

  /// The quantize that a store takes its elements or scales from; null: another operation.
  const Value* quantized_by(const Store& store) const {
    const Value& value = graph_.values[store.value];
    if (value.kind != Value::Kind::operation) return nullptr;
    if (value.op == Op::part) return &graph_.values[value.inputs[0]];
    return value.op == Op::quantize ? &value : nullptr;
  }

  std::uint32_t quantized(const Store& store) {
    const Value& value = *quantized_by(store);
    const auto [place, is_new] = quantized_.try_emplace(&value);
    if (is_new)
      place->second = add_quantize(builder_, value, geometry_.space, lower(value.inputs[0], geometry_.space));
    const EngineNode& node = builder_.graph_.nodes[place->second];
    return graph_.values[store.value].op == Op::part ? node.further[0] : node.output;
  }

  EngineTensor memory_of_scales(const Store& store) const {
    const EngineNode& node = builder_.graph_.nodes[quantized_.at(quantized_by(store))];
    return scales_beside(store.tensor, geometry_.space, builder_.at(node.inputs[0]).dims,
                         std::get<BlockAttributes>(node.attributes));
  }

  // ---- stores ----

  void write(std::size_t s, std::uint32_t x) {
    const Store& store = graph_.stores[s];
    const bool scales = quantized_by(store) && graph_.values[store.value].op == Op::part;
    EngineTensor t = scales ? memory_of_scales(store) : memory(store.tensor, geometry_.space);
    t.role = EngineTensor::Role::output;
    t.source = static_cast<std::uint32_t>(s);
    if (scales)
      builder_.at(x) = std::move(t);
    else
      write_value(store, x, std::move(t));
  }

  void write_value(const Store& store, std::uint32_t x, EngineTensor t) {
    if (needs_conversion(builder_.at(x), graph_.values[store.value].dtype, store.tensor.dtype))
      x = builder_.convert(x, graph_.values[store.value].dtype, store.tensor.dtype);
    if (builder_.at(x).dims != t.dims && graph_.values[store.value].kind == Value::Kind::scalar)
      throw NotLowered{"a plain fill beside computed values; fill that array in a call of its own"};
    for (std::size_t i = 0; i < t.dims.size(); ++i)
      if (builder_.at(x).dims[i] > t.dims[i])
        throw NotLowered{
            "a value over fewer axes than the others beside it, which cuDNN computes at wrong places"};
    if (builder_.at(x).dims.back() == 1 && t.dims.back() > 1)
      throw NotLowered{
          "a store that repeats its value along the columns, which cuDNN writes at wrong places"};
    if (!can_become_output(builder_, x, t.dtype, stored_) || builder_.at(x).dims != t.dims)
      x = builder_.node(Op::copy, {x}, t.dtype, t.dims, builder_.compute_of(t.dtype));
    builder_.at(x) = std::move(t);
  }

  const CanonicalGraph& graph_;
  const Geometry& geometry_;
  GraphBuilder builder_;
  std::vector<bool> behind_product_;
  std::vector<std::uint32_t> stored_;  // per store
  const Value* carried_ = nullptr;     // see choose_carried
  std::optional<std::uint32_t> product_of_ones_;
  std::map<const Value*, std::size_t> quantized_;  // their nodes
  std::map<std::uint32_t, std::vector<std::pair<Layout, std::uint32_t>>> lowered_;
};

}  // namespace

EngineGraph lower(const CanonicalGraph& graph, const Geometry& geometry) {
  EngineGraph result =
      has_structured(graph) ? lower_structured(graph, geometry) : Lowering(graph, geometry).run();
  result.name = expression_text(graph, 70);
  return result;
}

}  // namespace stiletto::detail::cudnn
