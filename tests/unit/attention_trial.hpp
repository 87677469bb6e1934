// SPDX-License-Identifier: Apache-2.0
// One call of the CPU's attention, forward and backward, on random operands of any layout, beside a reference
// in float64 that follows the definition row by row.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "backends/cpu/structured.hpp"
#include "core/dtype_info.hpp"

namespace stiletto::detail::cpu::attention_test {

using Random = std::mt19937;
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// packed: beside other rows, as q, k and v of one projection are. reversed: negative strides. apart: the
/// last axis has gaps. shared: all heads are one, stride 0. swapped: the second and third axis change places
/// in memory.
enum class Layout { plain, packed, reversed, apart, shared, swapped };

class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape, Layout layout = Layout::plain) : dtype_(dtype), shape_(shape) {
    strides_ = shape;
    std::int64_t step = layout == Layout::apart ? 2 : 1;
    std::vector<std::size_t> order;
    for (std::size_t axis = shape.size(); axis-- > 0;) order.push_back(axis);
    if (layout == Layout::swapped) std::swap(order[1], order[2]);
    for (const std::size_t axis : order) {
      const bool one = layout == Layout::shared && axis == 2;
      strides_[axis] = one ? 0 : step;
      step *= one ? 1 : shape[axis];
      if (layout == Layout::packed && axis == 2) step *= 3;
      if (layout != Layout::reversed) continue;
      offset_ += (shape[axis] - 1) * strides_[axis];
      strides_[axis] = -strides_[axis];
    }
    storage_.resize(bytes_for(dtype, step));
  }
  void fill(Random& random, double size = 1) {
    std::normal_distribution<double> normal(0, size);
    each([&](std::array<std::int64_t, 4> i) { set(i, normal(random)); });
  }
  template <class F>
  void each(F f) const {
    std::array<std::int64_t, 4> i{}, extent{1, 1, 1, 1};
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) extent[axis] = shape_[axis];
    for (i[0] = 0; i[0] < extent[0]; ++i[0])
      for (i[1] = 0; i[1] < extent[1]; ++i[1])
        for (i[2] = 0; i[2] < extent[2]; ++i[2])
          for (i[3] = 0; i[3] < extent[3]; ++i[3]) f(i);
  }
  double at(std::array<std::int64_t, 4> i) const {
    const std::byte* const from = storage_.data() + address(i);
    if (dtype_ == DType::float64) return read<double>(from);
    if (dtype_ == DType::float32) return read<float>(from);
    if (dtype_ == DType::int32) return read<std::int32_t>(from);
    return static_cast<double>(dtype_ == DType::float16 ? static_cast<float>(read<half>(from))
                                                        : static_cast<float>(read<bfloat16>(from)));
  }
  void set(std::array<std::int64_t, 4> i, double value) {
    std::byte* const to = storage_.data() + address(i);
    const auto narrow = static_cast<float>(value);
    if (dtype_ == DType::float64) write(to, value);
    if (dtype_ == DType::float32) write(to, narrow);
    if (dtype_ == DType::int32) write(to, static_cast<std::int32_t>(value));
    if (dtype_ == DType::float16) write(to, half(narrow));
    if (dtype_ == DType::bfloat16) write(to, bfloat16(narrow));
  }
  TensorView view() { return {storage_.data() + byte_offset(dtype_, offset_), dtype_, shape_, strides_}; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  const std::vector<std::byte>& bytes() const { return storage_; }

 private:
  template <class T>
  static T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  template <class T>
  static void write(std::byte* to, const T& value) {
    std::memcpy(to, &value, sizeof value);
  }
  std::size_t address(const std::array<std::int64_t, 4>& i) const {
    std::int64_t element = offset_;
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) element += i[axis] * strides_[axis];
    return static_cast<std::size_t>(byte_offset(dtype_, element));
  }

  DType dtype_ = DType::float32;
  Shape shape_;
  Strides strides_;
  std::int64_t offset_ = 0;
  std::vector<std::byte> storage_;
};

struct Setting {
  DType dtype = DType::float32;
  std::int64_t batch = 2, queries = 17, keys = 17, heads = 2, heads_kv = 2, width_qk = 8, width_v = 8;
  Causal causal = Causal::none;
  std::int64_t window = 0;
  std::vector<int> seq_len_q = {}, seq_len_kv = {};
  std::optional<DType> bias = {};
  bool bias_of_batch = false, bias_of_head = false, sink = false;
  Layout layout = Layout::plain;
  std::optional<DType> result = {};
};

class Trial {
 public:
  Trial(const Setting& setting, Random& random) : s(setting) {
    const Shape of_q{s.batch, s.queries, s.heads, s.width_qk}, of_out{s.batch, s.queries, s.heads, s.width_v};
    const Shape of_k{s.batch, s.keys, s.heads_kv, s.width_qk}, of_v{s.batch, s.keys, s.heads_kv, s.width_v};
    q = Tensor(s.dtype, of_q, s.layout), k = Tensor(s.dtype, of_k, s.layout);
    v = Tensor(s.dtype, of_v, s.layout), d_out = Tensor(s.dtype, of_out, s.layout);
    for (Tensor* t : {&q, &k, &v, &d_out}) t->fill(random);
    scale = Tensor(DType::float64, {});
    scale.set({}, 1.2 / std::sqrt(static_cast<double>(s.width_qk)));
    const Layout of_results = s.layout == Layout::shared ? Layout::plain : s.layout;
    const auto result = [&](const Shape& shape) {
      return Tensor(s.result.value_or(s.dtype), shape, of_results);
    };
    out = result(of_out), dq = result(of_q), dk = result(of_k), dv = result(of_v);
    stats = Tensor(DType::float32, {s.batch, s.heads, s.queries, 1}, of_results);
    fill_optional(random);
  }

  void forward() {
    std::vector<TensorView> operands{q.view(), k.view(), v.view(), scale.view()};
    append_optional(operands);
    const std::array results{out.view(), stats.view()};
    attention(Attributes(attributes()), operands, results);
  }
  void backward() {
    std::vector<TensorView> operands{d_out.view(), q.view(),     k.view(),    v.view(),
                                     out.view(),   stats.view(), scale.view()};
    append_optional(operands);
    std::array<TensorView, 5> results{dq.view(), dk.view(), dv.view()};
    if (s.bias) results[3] = d_bias.view();
    if (s.sink) results[4] = d_sink.view();
    attention_backward(Attributes(attributes()), operands, results);
  }
  void check() {
    forward();
    backward();
    make_reference();
    compare("out", out, reference.out, forward_tolerance());
    compare("stats", stats, reference.stats, s.dtype == DType::float64 ? 2e-7 : forward_tolerance());
    compare("dq", dq, reference.dq, backward_tolerance(), 1);
    compare("dk", dk, reference.dk, backward_tolerance(), 1);
    compare("dv", dv, reference.dv, backward_tolerance(), 1);
    if (s.bias) compare("dbias", d_bias, reference.d_bias, backward_tolerance(), 1);
    if (s.sink) compare("dsink", d_sink, reference.d_sink, std::max(backward_tolerance(), 1e-6));
  }

  bool sees(std::int64_t b, std::int64_t i, std::int64_t j) const {
    const std::int64_t query_count = length(s.seq_len_q, b, s.queries);
    const std::int64_t key_count = length(s.seq_len_kv, b, s.keys);
    if (i >= query_count || j >= key_count) return false;
    if (s.causal == Causal::none) return true;
    const std::int64_t bound = s.causal == Causal::top_left ? i : i + key_count - query_count;
    return j <= bound && (s.window == 0 || j > bound - s.window);
  }
  void make_reference() {
    const auto zeros = [](const Tensor& like) {
      Tensor t(DType::float64, like.shape());
      return t;
    };
    reference = {zeros(out), zeros(stats), zeros(dq), zeros(dk), zeros(dv), zeros(d_bias), zeros(d_sink)};
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t i = 0; i < s.queries; ++i) add_row(b, h, i);
  }

  Setting s;
  Tensor q, k, v, d_out, scale, seq_len_q, seq_len_kv, bias, sink;
  Tensor out, stats, dq, dk, dv, d_bias, d_sink;
  struct Reference {
    Tensor out, stats, dq, dk, dv, d_bias, d_sink;
  } reference;

  /// Relative to the largest magnitude, or to `size`: gradients may cancel to nothing.
  static void compare(const char* name, const Tensor& got, const Tensor& expected, double tolerance,
                      double size = 0) {
    double largest = size, worst = 0;
    expected.each([&](auto i) {
      if (std::isfinite(expected.at(i))) largest = std::max(largest, std::fabs(expected.at(i)));
    });
    int wrong = 0;
    expected.each([&](auto i) {
      const double e = expected.at(i), g = got.at(i);
      if (std::isnan(e) || std::isinf(e))
        wrong += std::isnan(e) ? !std::isnan(g) : g != e;
      else if (!(std::fabs(g - e) <= tolerance * largest))
        ++wrong;
      if (std::isfinite(e) && std::isfinite(g)) worst = std::max(worst, std::fabs(g - e) / largest);
    });
    EXPECT_EQ(wrong, 0) << name << ": worst " << worst << ", tolerance " << tolerance;
  }

 private:
  static std::int64_t length(const std::vector<int>& lengths, std::int64_t b, std::int64_t extent) {
    if (lengths.empty()) return extent;
    return std::clamp<std::int64_t>(lengths[static_cast<std::size_t>(b)], 0, extent);
  }
  double forward_tolerance() const {
    switch (s.dtype) {
      case DType::float64:
        return 1e-14;
      case DType::float32:
        return 1e-6 * std::sqrt(static_cast<double>(std::max<std::int64_t>(s.width_qk, 16)));
      default:
        return s.dtype == DType::float16 ? 5e-3 : 1.6e-2;
    }
  }
  double backward_tolerance() const {
    if (s.dtype == DType::float64) return 1e-13;
    return s.dtype == DType::float32 ? 1e-5 : 3e-2;
  }
  AttentionAttributes attributes() const {
    AttentionAttributes a;
    a.causal = s.causal;
    a.window = s.window;
    const auto add = [&a](AttentionOperand operand, bool there) {
      if (there) a.operands |= 1U << static_cast<unsigned>(operand);
    };
    add(AttentionOperand::seq_len_q, !s.seq_len_q.empty());
    add(AttentionOperand::seq_len_kv, !s.seq_len_kv.empty());
    add(AttentionOperand::bias, s.bias.has_value());
    add(AttentionOperand::sink, s.sink);
    return a;
  }
  void fill_optional(Random& random) {
    const auto lengths = [&](Tensor& t, const std::vector<int>& values) {
      if (values.empty()) return;
      t = Tensor(DType::int32, {s.batch});
      for (std::size_t b = 0; b < values.size(); ++b) t.set({static_cast<std::int64_t>(b)}, values[b]);
    };
    lengths(seq_len_q, s.seq_len_q);
    lengths(seq_len_kv, s.seq_len_kv);
    if (s.bias) {
      const Shape shape{s.bias_of_batch ? s.batch : 1, s.bias_of_head ? s.heads : 1, s.queries, s.keys};
      bias = Tensor(*s.bias, shape), d_bias = Tensor(s.result.value_or(*s.bias), shape);
      bias.fill(random);
    }
    if (s.sink) {
      sink = Tensor(DType::float32, {s.heads}), d_sink = Tensor(DType::float32, {s.heads});
      sink.fill(random);
    }
  }
  void append_optional(std::vector<TensorView>& operands) {
    if (!s.seq_len_q.empty()) operands.push_back(seq_len_q.view());
    if (!s.seq_len_kv.empty()) operands.push_back(seq_len_kv.view());
    if (s.bias) operands.push_back(bias.view());
    if (s.sink) operands.push_back(sink.view());
  }
  static void add(Tensor& t, std::array<std::int64_t, 4> i, double value) { t.set(i, t.at(i) + value); }
  std::array<std::int64_t, 4> of_bias(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return {s.bias_of_batch ? b : 0, s.bias_of_head ? h : 0, i, j};
  }
  double logit(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t d = 0; d < s.width_qk; ++d)
      sum += q.at({b, i, h, d}) * k.at({b, j, h / (s.heads / s.heads_kv), d});
    return sum * scale.at({}) + (s.bias ? bias.at(of_bias(b, h, i, j)) : 0);
  }
  /// The row's output and what it adds to each gradient.
  void add_row(std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t head_kv = h / (s.heads / s.heads_kv);
    std::vector<double> p(static_cast<std::size_t>(s.keys));
    std::vector<std::int64_t> seen;
    for (std::int64_t j = 0; j < s.keys; ++j)
      if (sees(b, i, j)) seen.push_back(j);
    const bool is_row = i < length(s.seq_len_q, b, s.queries);
    if (seen.empty()) return reference.stats.set({b, h, i, 0}, s.sink && is_row ? sink.at({h}) : -infinity);
    double maximum = s.sink ? sink.at({h}) : -infinity;
    for (const std::int64_t j : seen) maximum = std::max(maximum, logit(b, h, i, j));
    const bool hidden = maximum == -infinity && std::none_of(seen.begin(), seen.end(), [&](std::int64_t j) {
                          return std::isnan(logit(b, h, i, j));
                        });
    if (hidden) return reference.stats.set({b, h, i, 0}, -infinity);
    double sum = s.sink ? std::exp(sink.at({h}) - maximum) : 0;
    for (const std::int64_t j : seen)
      sum += p[static_cast<std::size_t>(j)] = std::exp(logit(b, h, i, j) - maximum);
    reference.stats.set({b, h, i, 0}, maximum + std::log(sum));
    double delta = 0;
    for (std::int64_t e = 0; e < s.width_v; ++e) {
      double value = 0;
      for (const std::int64_t j : seen)
        value += p[static_cast<std::size_t>(j)] / sum * v.at({b, j, head_kv, e});
      reference.out.set({b, i, h, e}, value);
      delta += value * d_out.at({b, i, h, e});
    }
    for (const std::int64_t j : seen) add_pair(b, h, i, j, p[static_cast<std::size_t>(j)] / sum, delta);
    if (s.sink) add(reference.d_sink, {h}, -std::exp(sink.at({h}) - maximum) / sum * delta);
  }
  void add_pair(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, double p, double delta) {
    const std::int64_t head_kv = h / (s.heads / s.heads_kv);
    double d_p = 0;
    for (std::int64_t e = 0; e < s.width_v; ++e) {
      d_p += v.at({b, j, head_kv, e}) * d_out.at({b, i, h, e});
      add(reference.dv, {b, j, head_kv, e}, p * d_out.at({b, i, h, e}));
    }
    const double d_score = p * (d_p - delta);
    if (s.bias) add(reference.d_bias, of_bias(b, h, i, j), d_score);
    for (std::int64_t d = 0; d < s.width_qk; ++d) {
      add(reference.dq, {b, i, h, d}, d_score * scale.at({}) * k.at({b, j, head_kv, d}));
      add(reference.dk, {b, j, head_kv, d}, d_score * scale.at({}) * q.at({b, i, h, d}));
    }
  }
};

}  // namespace stiletto::detail::cpu::attention_test
