// SPDX-License-Identifier: Apache-2.0
// The gradients of rms_norm and layer_norm. dx goes row by row; dscale and dbias, sums over rows, by blocks
// of columns and fixed groups of rows, so that no sum depends on the number of threads.
#include <algorithm>

#include "backends/cpu/norm_loops.hpp"
#include "backends/cpu/norm_rows.hpp"

namespace stiletto::detail::cpu {
namespace {

using Views = std::span<const TensorView>;

/// Rows and columns of the sums over rows that one task adds up.
constexpr std::int64_t group_rows = 128, block_columns = 1024;

template <class T>
struct Backward {
  Rows dy, x, inv;
  const Rows* mean;  // null for rms_norm
  const T* scale;

  T mean_of(std::int64_t row) const {
    return mean == nullptr ? T{} : load_one<T>(mean->view, mean->rows.offset(row));
  }
  T inv_of(std::int64_t row) const { return load_one<T>(inv.view, inv.rows.offset(row)); }
  void data_gradient(const Rows& dx, std::int64_t first_row, std::int64_t last_row) const;
  void column_sums(double* dscale, double* dbias, std::int64_t first_row, std::int64_t last_row,
                   std::int64_t first_column, std::int64_t n) const;
};

template <class T>
void Backward<T>::data_gradient(const Rows& dx, std::int64_t first_row, std::int64_t last_row) const {
  T* const buffer = scratch<T>(ScratchPlace::task, 3 * segment);
  SegmentReader<T> dy_reader(dy, buffer), x_reader(x, buffer + segment);
  const std::int64_t columns = x.columns.count;
  for (std::int64_t row = first_row; row < last_row; ++row) {
    dy_reader.start_row(row);
    x_reader.start_row(row);
    const T row_mean = mean_of(row), row_inv = inv_of(row);
    double sums[2] = {0, 0};
    for_each_segment(columns, [&](std::int64_t first, std::int64_t n) {
      NormLoops<T>::add_gradient_sums(sums, dy_reader.at(first, n), x_reader.at(first, n), scale + first, n,
                                      row_mean);
    });
    const auto count = static_cast<double>(columns);
    const double inv_squared = static_cast<double>(row_inv) * static_cast<double>(row_inv);
    const typename NormLoops<T>::Gradient by{row_mean,
                                             mean == nullptr ? T{} : static_cast<T>(sums[0] / count),
                                             static_cast<T>(inv_squared * (sums[1] / count)), row_inv};
    const std::int64_t base = dx.rows.offset(row);
    for_each_segment(columns, [&](std::int64_t first, std::int64_t n) {
      T* const to = target(dx.view, base, dx.columns, first, buffer + 2 * segment);
      NormLoops<T>::gradient(to, dy_reader.at(first, n), x_reader.at(first, n), scale + first, n, by);
      write(dx.view, base, dx.columns, first, n, to);
    });
  }
}

template <class T>
void Backward<T>::column_sums(double* dscale, double* dbias, std::int64_t first_row, std::int64_t last_row,
                              std::int64_t first_column, std::int64_t n) const {
  std::fill_n(dscale, n, 0.0);
  std::fill_n(dbias, n, 0.0);
  T* const buffer = scratch<T>(ScratchPlace::task, 2 * block_columns);
  for (std::int64_t row = first_row; row < last_row; ++row) {
    const T* const dy_row = read(dy.view, dy.rows.offset(row), dy.columns, first_column, n, buffer);
    const T* const x_row =
        read(x.view, x.rows.offset(row), x.columns, first_column, n, buffer + block_columns);
    NormLoops<T>::add_columns(dscale, dbias, dy_row, x_row, n, mean_of(row), inv_of(row));
  }
}

/// How many groups of rows have sums of their own: fewer where those would be large.
std::int64_t row_groups(std::int64_t rows, std::int64_t columns) {
  const std::int64_t most = std::max<std::int64_t>(1, (1 << 19) / columns);
  return std::min({ceil_divide(rows, group_rows), most, std::int64_t{64}});
}

template <class T>
void parameter_gradients(const Backward<T>& backward, const TensorView& dscale, const TensorView* dbias) {
  const std::int64_t rows = backward.x.rows.count, columns = backward.x.columns.count;
  const std::int64_t groups = row_groups(rows, columns), blocks = ceil_divide(columns, block_columns);
  const std::int64_t rows_each = ceil_divide(rows, groups);
  double* const sums = scratch<double>(ScratchPlace::columns, 2 * groups * columns);
  double* const bias_sums = sums + groups * columns;
  parallel_for(static_cast<std::size_t>(groups * blocks), [&](std::size_t task) {
    const std::int64_t group = static_cast<std::int64_t>(task) / blocks;
    const std::int64_t column = static_cast<std::int64_t>(task) % blocks * block_columns;
    const std::int64_t first = std::min(rows, group * rows_each), last = std::min(rows, first + rows_each);
    backward.column_sums(sums + group * columns + column, bias_sums + group * columns + column, first, last,
                         column, std::min(block_columns, columns - column));
  });
  const auto finish = [&](double* totals, const TensorView& result) {
    for (std::int64_t group = 1; group < groups; ++group)
      for (std::int64_t i = 0; i < columns; ++i) totals[i] += totals[group * columns + i];
    store_all(result, totals);
  };
  finish(sums, dscale);
  if (dbias != nullptr) finish(bias_sums, *dbias);
}

template <class T>
void run(const NormAttributes& attributes, Views operands, Views results, bool centred) {
  const Rows x(operands[1], attributes.axes), dx(results[0], attributes.axes);
  const Rows mean(operands[3], attributes.axes), inv(operands[centred ? 4 : 3], attributes.axes);
  const std::int64_t columns = x.columns.count;
  const Backward<T> backward{Rows(operands[0], attributes.axes), x, inv, centred ? &mean : nullptr,
                             whole(operands[2], scratch<T>(ScratchPlace::kernel, columns))};
  if (results[0].data != nullptr)
    for_each_piece(x.rows.count, 2 * columns,
                   [&](std::int64_t first, std::int64_t last) { backward.data_gradient(dx, first, last); });
  const TensorView* const dbias = results.size() > 2 ? &results[2] : nullptr;
  if (results[1].data != nullptr || (dbias != nullptr && dbias->data != nullptr))
    parameter_gradients(backward, results[1], dbias);
}

void run(const Attributes& attributes, Views operands, Views results, bool centred) {
  const auto& norm = std::get<NormAttributes>(attributes);
  if (operands[0].dtype == DType::float64)
    run<double>(norm, operands, results, centred);
  else
    run<float>(norm, operands, results, centred);
}

}  // namespace

void rms_norm_backward(const Attributes& attributes, Views operands, Views results) {
  run(attributes, operands, results, false);
}

void layer_norm_backward(const Attributes& attributes, Views operands, Views results) {
  run(attributes, operands, results, true);
}

}  // namespace stiletto::detail::cpu
