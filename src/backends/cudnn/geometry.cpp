// SPDX-License-Identifier: Apache-2.0
// Placing axes in dimensions.
#include "backends/cudnn/geometry.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cudnn {
namespace {

// Measured on an H200 with cuDNN 9.19: batches from here on, and single rows from here on, give plans that
// fail when they are launched.
constexpr std::int64_t batch_limit = 65536;
constexpr std::int64_t single_row_limit = std::int64_t{1} << 20;
constexpr std::size_t most_dimensions = 8;    // CUDNN_DIM_MAX, which cudnn-frontend does not check
constexpr std::int64_t widest_factor = 1024;  // wider last dimensions of a cut axis gained nothing

std::string form_of(const Layout& space) {
  std::string result;
  for (const Part& part : space) result += text(result.empty() ? "" : " x ", part.extent);
  return result;
}

class Placer {
 public:
  explicit Placer(const CanonicalGraph& graph) : graph_(graph) {}

  std::vector<Geometry> run(std::string& refusal) {
    const auto product = std::find_if(graph_.values.begin(), graph_.values.end(),
                                      [](const Value& v) { return v.op == Op::matmul && is_operation(v); });
    AxisMask contracted, used;
    for (const Value& value : graph_.values) {
      used |= value.axes;
      if (is_operation(value) && value.op != Op::matmul) contracted |= value.contracted;
    }
    for (const Store& store : graph_.stores) used |= store.tensor.axes;
    if (product != graph_.values.end())
      around_product(*product, contracted);
    else if (contracted.any())
      reductions(used | contracted, contracted);
    else
      pointwise(axes_of(used, graph_.extents.size()));
    if (result_.empty())
      refusal = text("its ", graph_.extents.size(), " axes do not merge into ", most_dimensions,
                     ", the most that cuDNN takes");
    return std::move(result_);
  }

 private:
  static bool is_operation(const Value& value) { return value.kind == Value::Kind::operation; }
  std::int64_t extent(std::size_t axis) const { return graph_.extents[axis]; }
  Part whole(std::size_t axis) const { return {static_cast<int>(axis), extent(axis), 1}; }

  /// Fills up to rank 3 from the left.
  void add(Layout space, std::optional<Part> summed = {}) {
    if (space.size() > most_dimensions) return;
    while (space.size() < 3) space.insert(space.begin(), Part{});
    std::string form = form_of(space);
    if (summed) form += text(", sum as a product with ", summed->extent, " ones");
    result_.push_back({std::move(form), std::move(space), summed});
  }

  // ---- matmul ----

  /// Rows are the axes of the left operand alone, columns those of the right alone; one of each keeps its
  /// place and everything else is batch.
  void around_product(const Value& product, AxisMask reduced) {
    AxisMask left = graph_.values[product.inputs[0]].axes & ~product.contracted;
    AxisMask right = graph_.values[product.inputs[1]].axes & ~product.contracted;
    AxisMask space = product.axes | reduced;
    for (const Store& store : graph_.stores) space |= store.tensor.axes;
    const auto rows = axes_of(left & ~right, graph_.extents.size());
    const auto columns = axes_of(right & ~left, graph_.extents.size());
    AxisMask batch = space;
    if (!rows.empty()) batch.reset(rows.back());
    if (!columns.empty()) batch.reset(columns.back());
    Layout layout;
    for (std::size_t axis : axes_of(batch, graph_.extents.size())) layout.push_back(whole(axis));
    if (layout.empty()) layout.emplace_back();
    layout.push_back(rows.empty() ? Part{} : whole(rows.back()));
    layout.push_back(columns.empty() ? Part{} : whole(columns.back()));
    add(std::move(layout));
  }

  // ---- reductions ----

  void reductions(AxisMask used, AxisMask contracted) {
    std::vector<std::size_t> axes = axes_of(used, graph_.extents.size());
    const Tensor* widest = nullptr;
    for (const Tensor& tensor : graph_.tensors)
      if (widest == nullptr || tensor.axes.count() > widest->axes.count()) widest = &tensor;
    if (widest != nullptr)
      std::stable_sort(axes.begin(), axes.end(), [&](std::size_t x, std::size_t y) {
        return std::abs(widest->strides[x]) > std::abs(widest->strides[y]);
      });
    Layout direct;
    for (std::size_t axis : axes) direct.push_back(whole(axis));
    add(std::move(direct));
    if (only_sums()) sums_as_products(axes, contracted);
  }

  bool only_sums() const {
    return std::all_of(graph_.values.begin(), graph_.values.end(), [](const Value& v) {
      return !is_operation(v) || v.contracted.none() || v.op == Op::sum || v.op == Op::mean;
    });
  }

  /// `axes` in the order of memory. One summed axis becomes the product's inner dimension; a second one is
  /// summed afterwards, over the product's columns.
  void sums_as_products(const std::vector<std::size_t>& axes, AxisMask contracted) {
    std::vector<std::size_t> summed, kept;
    for (std::size_t axis : axes) (contracted.test(axis) ? summed : kept).push_back(axis);
    if (summed.size() == 1 && kept.empty()) return whole_sum(summed[0]);
    if (summed.size() > 2) return;
    const std::size_t columns = summed.size() == 2 ? summed[1] : kept.back();
    if (summed.size() == 1) kept.pop_back();
    Layout space;
    for (std::size_t axis : kept) space.push_back(whole(axis));
    if (space.empty()) space.emplace_back();
    space.emplace_back();  // the product's one row
    space.push_back(whole(columns));
    add(std::move(space), whole(summed[0]));
  }

  /// Everything: columns of a matrix by a product, then their sum, so that more than one multiprocessor
  /// works.
  void whole_sum(std::size_t axis) {
    const std::int64_t n = extent(axis);
    constexpr std::int64_t most_columns = 16384;
    std::int64_t columns = 1;
    while (columns < most_columns && n % (columns * 2) == 0 && columns * columns < n) columns *= 2;
    if (columns > 1)
      add({Part{}, Part{}, {static_cast<int>(axis), columns, 1}},
          Part{static_cast<int>(axis), n / columns, columns});
    add({Part{}, Part{}, Part{}}, whole(axis));
  }

  // ---- pointwise ----

  void pointwise(const std::vector<std::size_t>& axes) {
    if (axes.size() == 1) return cut(axes[0]);
    if (axes.size() == 2 && extent(axes[1]) >= single_row_limit && extent(axes[0]) < batch_limit) {
      const std::int64_t width = divisor(extent(axes[1]));
      if (width > 1) add({whole(axes[0]), outer(axes[1], width), inner(axes[1], width)});
    }
    Layout space;
    for (std::size_t axis : axes) space.push_back(whole(axis));
    if (axes.size() == 3 && extent(axes[0]) >= batch_limit)
      add({whole(axes[1]), whole(axes[0]), whole(axes[2])});
    add(std::move(space));
    if (axes.size() != 2) return;
    add({whole(axes[1]), whole(axes[0])});
    if (extent(axes[0]) < batch_limit)
      add({whole(axes[0]), whole(axes[1]), Part{}});  // gaps between the columns
  }

  Part inner(std::size_t axis, std::int64_t width) const { return {static_cast<int>(axis), width, 1}; }
  Part outer(std::size_t axis, std::int64_t width) const {
    return {static_cast<int>(axis), extent(axis) / width, width};
  }

  /// The largest divisor up to the widest factor; powers of two where there is one of at least 64.
  static std::int64_t divisor(std::int64_t n) {
    std::int64_t power = 1;
    while (power < widest_factor && n % (power * 2) == 0) power *= 2;
    if (power >= 64) return power;
    for (std::int64_t d = widest_factor; d > 1; --d)
      if (n % d == 0) return d;
    return 1;
  }

  /// One axis that all tensors walk contiguously: (batch, rows, columns) as engines launch and run well.
  void cut(std::size_t axis) {
    const std::int64_t n = extent(axis);
    const int a = static_cast<int>(axis);
    constexpr std::int64_t columns = 64, rows = 1024;
    if (n % (columns * rows) == 0 && n / (columns * rows) < batch_limit)
      add({{a, n / (columns * rows), columns * rows}, {a, rows, columns}, {a, columns, 1}});
    const std::int64_t width = divisor(n);
    if (width > 1 && width < n) add({Part{}, outer(axis, width), inner(axis, width)});
    if (n < single_row_limit) add({Part{}, Part{}, whole(axis)});
    add({Part{}, whole(axis), Part{}});
  }

  const CanonicalGraph& graph_;
  std::vector<Geometry> result_;
};

}  // namespace

std::vector<std::size_t> axes_of(const AxisMask& mask, std::size_t count) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < count; ++axis)
    if (mask.test(axis)) axes.push_back(axis);
  return axes;
}

std::vector<Geometry> geometries(const CanonicalGraph& graph, std::string& refusal) {
  return Placer(graph).run(refusal);
}

}  // namespace stiletto::detail::cudnn
