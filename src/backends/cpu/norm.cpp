// SPDX-License-Identifier: Apache-2.0
// rms_norm and layer_norm: each row is read for its statistics, then written, by one thread.
#include <cmath>

#include "backends/cpu/norm_loops.hpp"
#include "backends/cpu/norm_rows.hpp"

namespace stiletto::detail::cpu {
namespace {

using Views = std::span<const TensorView>;

constexpr std::int64_t finished_elements = 8192;  // of rows that are finished at once, about

/// Rows as parts of a tensor whose leading axes they are: what lies within one index of all but the last of
/// those.
void finish_rows(const Shape& shape, std::size_t axes, std::int64_t first_row, std::int64_t last_row,
                 const Finish& finish) {
  const std::size_t leading = shape.size() - axes;
  ResultPart part = ResultPart::whole(shape);
  if (leading == 0) return finish(part);
  const std::int64_t inner = shape[leading - 1];
  for (std::int64_t row = first_row; row < last_row;) {
    const std::int64_t next = std::min(last_row, (row / inner + 1) * inner);
    part.first[leading - 1] = row % inner;
    part.last[leading - 1] = row % inner + next - row;
    std::int64_t rest = row / inner;
    for (std::size_t axis = leading - 1; axis-- > 0; rest /= shape[axis]) {
      part.first[axis] = rest % shape[axis];
      part.last[axis] = part.first[axis] + 1;
    }
    finish(part);
    row = next;
  }
}

/// inv: 1/√(mean square or variance + epsilon).
template <class T>
struct RowStatistics {
  Mean<T> mean;
  double exact_mean, inv;
};

template <class T>
RowStatistics<T> statistics(SegmentReader<T>& x, std::int64_t columns, bool centred, double epsilon) {
  RowStatistics<T> result{};
  const auto count = static_cast<double>(columns);
  if (centred) {
    double sum = 0;
    for_each_segment(
        columns, [&](std::int64_t first, std::int64_t n) { sum += NormLoops<T>::sum(x.at(first, n), n); });
    result.exact_mean = sum / count;
    result.mean = Mean<T>::of(result.exact_mean);
  }
  double squares = 0;
  for_each_segment(columns, [&](std::int64_t first, std::int64_t n) {
    squares += NormLoops<T>::squares(x.at(first, n), n, result.mean);
  });
  result.inv = 1 / std::sqrt(squares / count + epsilon);
  return result;
}

template <class T>
struct Forward {
  Rows x, y, mean, inv;
  const T *scale, *bias;
  bool centred;
  double epsilon;

  void run(std::int64_t first_row, std::int64_t last_row) const;
};

template <class T>
void Forward<T>::run(std::int64_t first_row, std::int64_t last_row) const {
  T* const buffer = scratch<T>(ScratchPlace::task, 2 * segment);
  SegmentReader<T> reader(x, buffer);
  for (std::int64_t row = first_row; row < last_row; ++row) {
    reader.start_row(row);
    const auto row_is = statistics(reader, x.columns.count, centred, epsilon);
    if (centred) store_one(mean.view, mean.rows.offset(row), row_is.exact_mean);
    store_one(inv.view, inv.rows.offset(row), row_is.inv);
    if (y.view.data == nullptr) continue;
    const std::int64_t base = y.rows.offset(row);
    for_each_segment(x.columns.count, [&](std::int64_t first, std::int64_t n) {
      T* const to = target(y.view, base, y.columns, first, buffer + segment);
      NormLoops<T>::normalise(to, reader.at(first, n), n, row_is.mean, static_cast<T>(row_is.inv),
                              scale + first, bias == nullptr ? nullptr : bias + first);
      write(y.view, base, y.columns, first, n, to);
    });
  }
}

template <class T>
void forward(const NormAttributes& attributes, Views operands, Views results, bool centred,
             const Finish& finish) {
  const TensorView& x = operands[0];
  const bool with_bias = centred || attributes.bias;
  const Rows rows(x, attributes.axes);
  const std::int64_t columns = rows.columns.count;
  T* const parameters = scratch<T>(ScratchPlace::kernel, 2 * columns);
  const Forward<T> forward{rows,
                           Rows(results[0], attributes.axes),
                           Rows(results[1], attributes.axes),
                           Rows(results[centred ? 2 : 1], attributes.axes),
                           whole(operands[1], parameters),
                           with_bias ? whole(operands[2], parameters + columns) : nullptr,
                           centred,
                           attributes.epsilon.value};
  const std::int64_t at_once =
      finish ? std::max<std::int64_t>(1, finished_elements / columns) : rows.rows.count;
  for_each_piece(rows.rows.count, columns, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; row += at_once) {
      forward.run(row, std::min(last, row + at_once));
      if (finish) finish_rows(x.shape, attributes.axes, row, std::min(last, row + at_once), finish);
    }
  });
}

void forward(const Attributes& attributes, Views operands, Views results, bool centred,
             const Finish& finish = {}) {
  const auto& norm = std::get<NormAttributes>(attributes);
  if (operands[0].dtype == DType::float64)
    forward<double>(norm, operands, results, centred, finish);
  else
    forward<float>(norm, operands, results, centred, finish);
}

}  // namespace

void rms_norm(const Attributes& attributes, Views operands, Views results) {
  forward(attributes, operands, results, false);
}

void rms_norm(const Attributes& attributes, Views operands, Views results, const Finish& finish) {
  forward(attributes, operands, results, false, finish);
}

void layer_norm(const Attributes& attributes, Views operands, Views results) {
  forward(attributes, operands, results, true);
}

void layer_norm(const Attributes& attributes, Views operands, Views results, const Finish& finish) {
  forward(attributes, operands, results, true, finish);
}

}  // namespace stiletto::detail::cpu
