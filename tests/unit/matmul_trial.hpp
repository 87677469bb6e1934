// SPDX-License-Identifier: Apache-2.0
// Running a MatmulProblem on random data and comparing it, with all memory around the destination, to a plain
// triple loop in float64 (in wrapping integers for integers). Shared by the matmul tests.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numbers>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/matmul.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cpu::test {

using Extents = std::vector<std::int64_t>;
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();

// ---- memory of one dtype, seen as float64

class Buffer {
 public:
  Buffer(DType dtype, std::int64_t elements)
      : dtype_(dtype), elements_(elements), bytes_(bytes_for(dtype, elements)) {}

  double get(std::int64_t i) const {
    switch (dtype_) {
      case DType::float32:
        return load<float>(i);
      case DType::float64:
        return load<double>(i);
      case DType::bfloat16:
        return static_cast<float>(load<bfloat16>(i));
      case DType::int8:
        return load<std::int8_t>(i);
      case DType::uint8:
        return load<std::uint8_t>(i);
      case DType::int32:
        return load<std::int32_t>(i);
      default:
        return static_cast<double>(load<std::int64_t>(i));
    }
  }
  void set(std::int64_t i, double v) {
    switch (dtype_) {
      case DType::float32:
        return store(i, static_cast<float>(v));
      case DType::float64:
        return store(i, v);
      case DType::bfloat16:
        return store(i, bfloat16(static_cast<float>(v)));
      case DType::int8:
        return store(i, static_cast<std::int8_t>(v));
      case DType::uint8:
        return store(i, static_cast<std::uint8_t>(v));
      case DType::int32:
        return store(i, static_cast<std::int32_t>(v));
      default:
        return store(i, static_cast<std::int64_t>(v));
    }
  }
  void* at(std::int64_t i) { return bytes_.data() + byte_offset(dtype_, i); }
  std::int64_t size() const { return elements_; }
  bool operator==(const Buffer&) const = default;

 private:
  template <class T>
  T load(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  template <class T>
  void store(std::int64_t i, T value) {
    std::memcpy(bytes_.data() + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
  }
  DType dtype_;
  std::int64_t elements_;
  std::vector<std::byte> bytes_;
};

/// A tensor inside a buffer that reaches `margin` elements beyond it on both sides.
struct Tensor {
  static constexpr std::int64_t margin = 40;
  MatrixLayout layout;
  Extents extents;
  std::int64_t first = margin;
  Buffer buffer{DType::float32, 0};

  Tensor() = default;
  Tensor(const MatrixLayout& l, const Extents& e) : layout(l), extents(e) {
    std::int64_t low = 0, high = 0;
    for (std::size_t i = 0; i < e.size(); ++i) (l.strides[i] < 0 ? low : high) += (e[i] - 1) * l.strides[i];
    first = margin - low;
    buffer = Buffer(l.dtype, high - low + 1 + 2 * margin);
  }
  std::int64_t index(const Extents& position) const {
    return std::inner_product(position.begin(), position.end(), layout.strides.begin(), first);
  }
  void* data() { return buffer.at(first); }
};

/// Calls f for each position.
template <class F>
void each_position(const Extents& extents, const F& f) {
  Extents position(extents.size());
  for (bool more = true; more;) {
    f(position);
    more = false;
    for (std::size_t axis = extents.size(); axis-- > 0 && !more;) {
      more = position[axis] + 1 < extents[axis];
      position[axis] = more ? position[axis] + 1 : 0;
    }
  }
}

using Random = std::mt19937;

inline void fill(Tensor& t, Random& random) {
  const bool floating = is_floating(t.layout.dtype);
  const double low = t.layout.dtype == DType::uint8 ? 0 : t.layout.dtype == DType::int8 ? -128 : -40000;
  const double high = t.layout.dtype == DType::uint8 ? 255 : t.layout.dtype == DType::int8 ? 127 : 40000;
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(low, high);
  for (std::int64_t i = 0; i < t.buffer.size(); ++i)
    t.buffer.set(i, floating ? normal(random) : std::round(uniform(random)));
}

// ---- layouts

enum class Order { rows, columns };

/// Dense strides of (batch…, rows, columns) with `gap` elements after each row (or column).
inline MatrixLayout dense(DType dtype, const Extents& batch, std::int64_t rows, std::int64_t columns,
                          Order order = Order::rows, std::int64_t gap = 0) {
  MatrixLayout layout{dtype, Extents(batch.size() + 2)};
  const std::int64_t inner = (order == Order::rows ? columns : rows) + gap;
  layout.strides[batch.size()] = order == Order::rows ? inner : 1;
  layout.strides[batch.size() + 1] = order == Order::rows ? 1 : inner;
  std::int64_t next = inner * (order == Order::rows ? rows : columns);
  for (std::size_t i = batch.size(); i-- > 0; next *= batch[i]) layout.strides[i] = next;
  return layout;
}

/// The same where an axis of the batch is not the operand's own.
inline MatrixLayout broadcast(MatrixLayout layout, const std::vector<std::size_t>& axes) {
  for (const std::size_t axis : axes) layout.strides[axis] = 0;
  return layout;
}

// ---- a problem, its data and its reference

inline double apply(const PostOperation& post, double x, double y) {
  if (post.swapped) std::swap(x, y);
  switch (post.op) {
    case Op::add:
      return x + y;
    case Op::subtract:
      return x - y;
    case Op::multiply:
      return x * y;
    case Op::divide:
      return x / y;
    case Op::maximum:
      return std::isnan(x) || std::isnan(y) ? not_a_number : std::max(x, y);
    case Op::minimum:
      return std::isnan(x) || std::isnan(y) ? not_a_number : std::min(x, y);
    case Op::relu:
      return x < 0 ? 0 : x;
    case Op::leaky_relu:
      return x > 0 ? x : post.coefficient * x;
    case Op::clipped_relu:
      return x < 0 ? 0 : x > post.coefficient ? post.coefficient : x;
    case Op::elu:
      return x > 0 ? x : post.coefficient * std::expm1(x);
    case Op::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Op::silu:
      return x / (1 + std::exp(-x));
    case Op::softplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    case Op::gelu:
      return x / 2 * std::erfc(-x / std::numbers::sqrt2);
    case Op::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Op::tanh:
      return std::tanh(x);
    case Op::exp:
      return std::exp(x);
    case Op::log:
      return std::log(x);
    case Op::abs:
      return std::fabs(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::square:
      return x * x;
    default:
      return -x;
  }
}

struct Trial {
  MatmulProblem problem;
  Tensor a, b, c;
  std::vector<Tensor> operands;
  std::vector<float> numbers;
  std::unique_ptr<const Matmul> matmul;

  Trial(const MatmulProblem& p, Random& random) : problem(p), matmul(make_matmul(p)) {
    const auto tensor = [&](const MatrixLayout& layout, std::int64_t rows, std::int64_t columns) {
      Extents extents = p.batch;
      extents.insert(extents.end(), {rows, columns});
      Tensor result(layout, extents);
      fill(result, random);
      return result;
    };
    a = tensor(p.a, p.m, p.k);
    b = tensor(p.b, p.k, p.n);
    c = tensor(p.c, p.m, p.n);
    std::uniform_real_distribution<float> uniform(0.5F, 2);
    operands.reserve(p.post.size());
    numbers.reserve(p.post.size());
    for (const PostOperation& post : p.post) {
      operands.push_back(post.binary && !post.number ? tensor(post.operand, p.m, p.n) : Tensor());
      numbers.push_back(uniform(random));
    }
  }

  std::string describe() const {
    std::string result = text(problem.a.dtype, "·", problem.b.dtype, "→", problem.c.dtype, " ");
    for (const std::int64_t extent : problem.batch) result += text(extent, "×");
    result += text(problem.m, "×", problem.n, "×", problem.k, " alpha ", problem.alpha);
    for (const MatrixLayout* layout : {&problem.a, &problem.b, &problem.c}) {
      result += " (";
      for (const std::int64_t stride : layout->strides) result += text(stride, ",");
      result += ")";
    }
    for (const PostOperation& post : problem.post) result += text(" ", name_of(post.op));
    return result + (matmul ? " by " + matmul->describe() : " by nobody");
  }

  void execute(Tensor& to) {
    std::vector<std::byte> room(matmul->workspace() + 64);
    const auto shift = (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64;
    std::vector<const void*> pointers;
    pointers.reserve(operands.size());
    for (Tensor& operand : operands) pointers.push_back(operand.data());
    matmul->execute(a.data(), b.data(), to.data(), pointers, numbers, room.data() + shift);
  }

  double expected(const Extents& position) const {
    Extents left = position, right = position;
    double sum = 0;
    std::uint64_t exact = 0;
    for (std::int64_t k = 0; k < problem.k; ++k) {
      left.back() = k;
      right[right.size() - 2] = k;
      const double x = a.buffer.get(a.index(left)), y = b.buffer.get(b.index(right));
      sum += x * y;
      if (!is_floating(problem.c.dtype))
        exact += static_cast<std::uint64_t>(static_cast<std::int64_t>(x)) *
                 static_cast<std::uint64_t>(static_cast<std::int64_t>(y));
    }
    if (!is_floating(problem.c.dtype)) {
      exact *= static_cast<std::uint64_t>(static_cast<std::int64_t>(problem.alpha));
      return problem.c.dtype == DType::int32 ? static_cast<std::int32_t>(exact)
                                             : static_cast<double>(static_cast<std::int64_t>(exact));
    }
    sum *= problem.alpha;
    if (problem.accumulate) sum += c.buffer.get(c.index(position));
    for (std::size_t i = 0; i < problem.post.size(); ++i) {
      const PostOperation& post = problem.post[i];
      const double y = !post.binary  ? 0
                       : post.number ? numbers[i]
                                     : operands[i].buffer.get(operands[i].index(position));
      sum = apply(post, sum, y);
    }
    return sum;
  }

  /// Runs, and compares every element and all memory around them.
  void check(double tolerance = 0) {
    ASSERT_NE(matmul, nullptr) << describe();
    const DType dtype = problem.c.dtype;
    if (tolerance == 0 && is_floating(dtype))
      tolerance = std::sqrt(static_cast<double>(problem.k)) * (dtype == DType::float64 ? 1e-14 : 1e-6) +
                  (dtype == DType::bfloat16 ? 4e-3 : 0);
    Tensor result = c;
    execute(result);
    Buffer outside = result.buffer, untouched = c.buffer;
    double largest = 0, worst = 0;
    std::string where;
    each_position(c.extents, [&](const Extents& position) {
      const std::int64_t i = c.index(position);
      const double want = expected(position), got = result.buffer.get(i);
      outside.set(i, 0);
      untouched.set(i, 0);
      const bool special = !std::isfinite(want) || std::fabs(want) > 3e38;
      const bool same =
          std::isnan(want) ? std::isnan(got) : got == static_cast<double>(static_cast<float>(want));
      const double error = special           ? (same ? 0 : infinity)
                           : std::isnan(got) ? infinity
                                             : std::fabs(got - want);
      if (error > worst) {
        worst = error;
        where = text(want, " became ", got, " at ", position[position.size() - 2], ",", position.back());
      }
      if (!special) largest = std::max(largest, std::fabs(want));
    });
    EXPECT_LE(worst, tolerance * largest) << describe() << ": " << where;
    EXPECT_TRUE(outside == untouched) << describe() << ": memory outside c changed";
  }
};

inline MatmulProblem problem_of(DType a, DType b, DType c, const Extents& batch, std::int64_t m,
                                std::int64_t n, std::int64_t k, Order a_order = Order::rows,
                                Order b_order = Order::rows, Order c_order = Order::rows,
                                std::int64_t gap = 0) {
  MatmulProblem p;
  p.batch = batch;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = dense(a, batch, m, k, a_order, gap);
  p.b = dense(b, batch, k, n, b_order, gap);
  p.c = dense(c, batch, m, n, c_order, gap);
  return p;
}

struct Dtypes {
  DType a, b, c;
};

inline std::vector<Dtypes> all_dtypes() {
  const DType f32 = DType::float32, bf16 = DType::bfloat16, s8 = DType::int8, u8 = DType::uint8;
  std::vector<Dtypes> all{{f32, f32, f32},
                          {DType::float64, DType::float64, DType::float64},
                          {DType::int32, DType::int32, DType::int32},
                          {DType::int64, DType::int64, DType::int64}};
  for (const DType a : {s8, u8})
    for (const DType b : {s8, u8}) all.push_back({a, b, DType::int32});
  if (packed_dtype(bf16, bf16) == bf16) {
    all.push_back({bf16, bf16, f32});
    all.push_back({bf16, bf16, bf16});
  }
  return all;
}

}  // namespace stiletto::detail::cpu::test
