// SPDX-License-Identifier: Apache-2.0
// Placing axes in dimensions.
#include "backends/cudnn/geometry.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "backends/cudnn/block_scaling.hpp"
#include "backends/cudnn/lower_structured.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cudnn {
namespace {

// Measured on an H200 with cuDNN 9.19: batches from here on, and a single row wider than this, give plans
// that fail when they are launched (a grid of more than 65535 blocks, and of 8 elements each).
constexpr std::int64_t batch_limit = 65536;
constexpr std::int64_t widest_row = 8 * (batch_limit - 1);
constexpr std::size_t most_dimensions = 8;  // CUDNN_DIM_MAX, which cudnn-frontend does not check
constexpr std::int64_t widest_cut = 8192;   // rows that a long axis is cut into; wider ones gained nothing

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
      if (is_operation(value) && value.op != Op::matmul && value.op != Op::part)
        contracted |= value.contracted;
    }
    for (const Store& store : graph_.stores) used |= store.tensor.axes;
    used &= ~scales_;
    contracted &= ~scales_;
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
  void add(Layout space, std::optional<Part> summed = {}, Carrier carrier = Carrier::none) {
    if (space.size() > most_dimensions) return;
    while (space.size() < 3) space.insert(space.begin(), Part{});
    std::string form = form_of(space);
    if (summed) form += text(", sum as a product with ", summed->extent, " ones");
    if (carrier == Carrier::ones) form += ", behind a product of ones";
    if (carrier == Carrier::gathers) form += ", other orders as products with a one";
    result_.push_back({std::move(form), std::move(space), summed, carrier});
  }

  /// The last resort: what follows a product may be broadcast and summed where it is not taken alone. Beyond
  /// three dimensions products are convolutions, whose plans computed wrong numbers behind ones (9.19, H200).
  void add_behind_ones(Layout space) {
    if (space.size() <= 3) add(std::move(space), {}, Carrier::ones);
  }

  // ---- matmul ----

  /// Rows are the axes of the left operand alone, columns those of the right alone; one of each keeps its
  /// place and everything else is batch. Beside block-scaled matrices it is theirs, or none.
  void around_product(const Value& product, AxisMask reduced) {
    AxisMask left = graph_.values[product.inputs[0]].axes & ~product.contracted;
    AxisMask right = graph_.values[product.inputs[1]].axes & ~product.contracted;
    AxisMask space = product.axes | reduced;
    for (const Store& store : graph_.stores) space |= store.tensor.axes;
    space &= ~scales_;
    const std::optional<std::size_t> row = kept(left & ~right), column = kept(right & ~left);
    AxisMask batch = space;
    if (row) batch.reset(*row);
    if (column) batch.reset(*column);
    Layout layout;
    for (std::size_t axis : axes_of(batch, graph_.extents.size())) layout.push_back(whole(axis));
    if (layout.empty()) layout.emplace_back();
    layout.push_back(row ? whole(*row) : Part{});
    layout.push_back(column ? whole(*column) : Part{});
    add(std::move(layout));
  }

  std::optional<std::size_t> kept(AxisMask axes) const {
    if (matrices_.any()) axes &= matrices_;
    const auto all = axes_of(axes, graph_.extents.size());
    return all.empty() ? std::nullopt : std::optional(all.back());
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
    add(direct);
    if (only({Op::sum, Op::mean})) sums_as_products(axes, contracted);
    if (!only({Op::sum, Op::mean, Op::norm1})) return;
    if (axes.size() == 1) direct = rows_of(axes[0]);
    add_behind_ones(std::move(direct));
  }

  /// Rows of a power of two elements, which do not overlap.
  Layout rows_of(std::size_t axis) const {
    const std::int64_t n = extent(axis);
    constexpr std::int64_t widest = 1024;
    std::int64_t width = 1;
    while (width < widest && n % (width * 2) == 0) width *= 2;
    constexpr std::int64_t narrowest = 8;
    if (width < narrowest) return {whole(axis)};
    return {{static_cast<int>(axis), n / width, width}, {static_cast<int>(axis), width, 1}};
  }

  bool only(std::initializer_list<Op> reductions) const {
    return std::all_of(graph_.values.begin(), graph_.values.end(), [&](const Value& v) {
      return !is_operation(v) || v.contracted.none() ||
             std::find(reductions.begin(), reductions.end(), v.op) != reductions.end();
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
    if (axes.size() == 1) return contiguous(axes[0]);
    if (axes.size() == 2 && extent(axes[1]) > widest_row && extent(axes[0]) < batch_limit)
      for (const Rows& rows : cuts(axes[1])) add({whole(axes[0]), rows.outer, rows.inner});
    Layout space;
    for (std::size_t axis : axes) space.push_back(whole(axis));
    if (axes.size() == 3 && extent(axes[0]) >= batch_limit)
      add({whole(axes[1]), whole(axes[0]), whole(axes[2])});
    add(space);
    if (axes.size() == 2) {
      add({whole(axes[1]), whole(axes[0])});
      if (extent(axes[0]) < batch_limit)
        add({whole(axes[0]), whole(axes[1]), Part{}});  // gaps between the columns
    }
    add_behind_ones(std::move(space));
    if (axes.size() == 2 && extent(axes[0]) < batch_limit && has_gaps(axes[1]))
      add({whole(axes[0]), Part{}, whole(axes[1])}, {}, Carrier::gathers);
  }

  /// Of an operand, along an axis.
  bool has_gaps(std::size_t axis) const {
    return std::any_of(graph_.tensors.begin(), graph_.tensors.end(), [&](const Tensor& tensor) {
      return tensor.axes.test(axis) && tensor.strides[axis] > 1;
    });
  }

  /// One axis that all tensors walk contiguously: (batch, rows, columns) as engines launch and run well.
  void contiguous(std::size_t axis) {
    const std::int64_t n = extent(axis);
    const int a = static_cast<int>(axis);
    constexpr std::int64_t columns = 64, rows = 1024;
    if (n % (columns * rows) == 0 && n / (columns * rows) < batch_limit)
      add({{a, n / (columns * rows), columns * rows}, {a, rows, columns}, {a, columns, 1}});
    for (const Rows& cut : cuts(axis)) add({Part{}, cut.outer, cut.inner});
    if (n <= widest_row) add({Part{}, Part{}, whole(axis)});
    add({Part{}, whole(axis), Part{}});
    if (has_gaps(axis)) add({Part{}, Part{}, whole(axis)}, {}, Carrier::gathers);
  }

  /// An axis as rows of a matrix.
  struct Rows {
    Part outer, inner;
  };

  /// By a power of two that divides it, else into rows that overlap, else by the largest divisor. Short axes
  /// run well as they are.
  std::vector<Rows> cuts(std::size_t axis) const {
    const std::int64_t n = extent(axis);
    constexpr std::int64_t longest_uncut = 2048;
    if (n <= longest_uncut) return {};
    const auto divided = [&](std::int64_t width) {
      return Rows{{static_cast<int>(axis), n / width, width}, {static_cast<int>(axis), width, 1}};
    };
    constexpr std::int64_t least_power = 64, most_power = 1024;
    std::int64_t power = 1;
    while (power < most_power && n % (power * 2) == 0) power *= 2;
    if (power >= least_power) return {divided(power)};
    std::vector<Rows> result;
    if (const std::optional<Rows> rows = overlapping(axis)) result.push_back(*rows);
    for (std::int64_t width = std::min(widest_cut, n / 2); width > 1; --width)
      if (n % width == 0) {
        result.push_back(divided(width));
        break;
      }
    return result;
  }

  /// Rows that begin at multiples of 16 elements and are a little longer than that, so that the last one ends
  /// with the axis: for sizes without a good divisor, primes among them. What two rows share is computed
  /// twice and written twice with one value, which takes results that nothing of the graph reads.
  std::optional<Rows> overlapping(std::size_t axis) const {
    const bool apart = std::all_of(graph_.stores.begin(), graph_.stores.end(), [](const Store& store) {
      return store.tensor.home == Tensor::Home::output;
    });
    if (!apart) return {};
    const std::int64_t n = extent(axis);
    constexpr std::int64_t alignment = 16;
    const std::int64_t widest = std::min(widest_cut, n / 4) / alignment * alignment;
    std::int64_t best = widest;
    for (std::int64_t step = widest; step > widest / 2; step -= alignment)
      if (n % step < n % best) best = step;
    return Rows{{static_cast<int>(axis), n / best, best}, {static_cast<int>(axis), best + n % best, 1}};
  }

  const CanonicalGraph& graph_;
  const AxisMask scales_ = scale_axes(graph_);     // which lie beside the dimensions
  const AxisMask matrices_ = matrix_axes(graph_);  // whose scales are tiled over both
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
  if (has_structured(graph)) return structured_geometries(graph);
  return Placer(graph).run(refusal);
}

}  // namespace stiletto::detail::cudnn
