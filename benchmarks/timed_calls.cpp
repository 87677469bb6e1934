// SPDX-License-Identifier: Apache-2.0
// One workload after another, as compare_frameworks.py asks for them, so that it can time Stiletto in turn
// with other frameworks. Lines of the standard input:
//   prepare KIND DTYPE SIZES…   compiles the function and makes its operands: "ready", or "refused: …"
//   run CALLS                   that many calls that allocate their results, and a wait for the last: the
//                               microseconds per call
//   stiletto_timed_calls cpu|cuda
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <stiletto/stiletto.hpp>

namespace st = stiletto;

namespace {

using List = std::vector<st::Array>;
using Sizes = std::vector<std::int64_t>;

/// Random-normal values, a thousand of them over and over.
template <class T>
st::Array random_elements(const st::Shape& shape) {
  static const std::vector<T> block = [] {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<T> values(1009);
    for (T& value : values) value = static_cast<T>(normal(generator));
    return values;
  }();
  std::size_t size = 1;
  for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
  std::vector<T> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = block[i % block.size()];
  return st::from_data(std::span<const T>(values), shape);
}

struct Work {
  std::vector<st::Shape> shapes;
  std::function<List(const List&)> function;
  std::vector<st::Dims> permuted = {};  // views of the operands that the function gets; none: as they are
};

Work product(const std::string& kind, const Sizes& s) {
  const std::int64_t m = s.at(0), n = s.at(1), k = s.at(2);
  if (kind == "tanh_product")
    return {{{m, k}, {k, n}}, [](const List& a) { return List{st::tanh(st::matmul(a[0], a[1]) / 20)}; }};
  if (kind == "gelu_product")
    return {{{m, k}, {k, n}, {n}},
            [](const List& a) { return List{st::gelu_tanh(st::matmul(a[0], a[1]) + a[2])}; }};
  return {{{m, k}, {k, n}, {k, n}},
          [](const List& a) { return List{st::silu(st::matmul(a[0], a[1])) * st::matmul(a[0], a[2])}; }};
}

Work attention(bool backward, const Sizes& s) {
  const st::Shape shape{s.at(0), s.at(1), s.at(3), s.at(4)};
  const st::AttentionOptions options{.causal = s.at(2) != 0 ? st::Causal::top_left : st::Causal::none};
  if (!backward)
    return {{shape, shape, shape},
            [options](const List& a) { return List{st::attention(a[0], a[1], a[2], options)}; }};
  return {{shape, shape, shape, shape}, [options](const List& a) {
            const auto g = st::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], options);
            return List{g.dq, g.dk, g.dv};
          }};
}

/// Images and filters lie channels-last if the last size says so.
Work convolution(const Sizes& s) {
  const std::int64_t n = s.at(0), c = s.at(1), k = s.at(2), extent = s.at(3), window = s.at(4);
  const st::ConvOptions options{.pre_padding = s.at(5)};
  const st::Shape bias{k, 1, 1};
  auto function = [options](const List& a) { return List{st::relu(st::conv(a[0], a[1], options) + a[2])}; };
  if (s.at(6) == 0) return {{{n, c, extent, extent}, {k, c, window, window}, bias}, function};
  return {{{n, extent, extent, c}, {k, window, window, c}, bias}, function, {{0, 3, 1, 2}, {0, 3, 1, 2}, {}}};
}

Work work_of(const std::string& kind, const Sizes& s) {
  if (kind == "tanh_product" || kind == "gelu_product" || kind == "gated_product") return product(kind, s);
  if (kind == "attention_forward" || kind == "attention_backward")
    return attention(kind == "attention_backward", s);
  if (kind == "convolution") return convolution(s);
  const st::Shape matrix{s.at(0), s.at(1)}, vector{s.at(1)};
  if (kind == "multiply_add")
    return {{matrix, matrix, matrix}, [](const List& a) { return List{a[0] * a[1] + a[2]}; }};
  if (kind == "softmax") return {{matrix}, [](const List& a) { return List{st::softmax(a[0])}; }};
  if (kind == "rms_norm")
    return {{matrix, vector}, [](const List& a) { return List{st::rms_norm(a[0], a[1])}; }};
  if (kind == "layer_norm")
    return {{matrix, vector, vector}, [](const List& a) { return List{st::layer_norm(a[0], a[1], a[2])}; }};
  throw std::runtime_error("no such workload: " + kind);
}

st::Array operand(const st::Shape& shape, st::DType dtype, st::Device device) {
  const st::Array values = dtype == st::DType::bfloat16  ? random_elements<st::bfloat16>(shape)
                           : dtype == st::DType::float16 ? random_elements<st::half>(shape)
                                                         : random_elements<float>(shape);
  return values.to(device);
}

st::DType dtype_named(const std::string& name) {
  for (const st::DType dtype : {st::DType::float16, st::DType::bfloat16, st::DType::float32})
    if (name == st::to_string(dtype)) return dtype;
  throw std::runtime_error("no dtype of the workloads: " + name);
}

/// Everything that one workload needs between lines.
class Prepared {
 public:
  Prepared(const std::string& kind, st::DType dtype, const Sizes& sizes, st::Device device)
      : last_(st::zeros({1}, st::DType::float32, device)) {
    const Work work = work_of(kind, sizes);
    for (std::size_t i = 0; i < work.shapes.size(); ++i) {
      st::Array array = operand(work.shapes[i], dtype, device);
      if (i < work.permuted.size() && work.permuted[i].size() > 0)
        array = st::transpose(array, work.permuted[i]);
      operands_.push_back(array);
    }
    if (kind == "attention_backward") add_forward(sizes);
    call_ = [f = st::compile([&](const List& a) { return work.function(a); }, operands_), this] {
      const List dropped = f(operands_);  // as a call in Python whose result nobody keeps
    };
    call_();
    wait();
  }

  double microseconds(int calls) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call_();
    wait();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
           calls;
  }

 private:
  void add_forward(const Sizes& sizes) {
    const st::AttentionOptions options{.causal = sizes[2] != 0 ? st::Causal::top_left : st::Causal::none};
    const auto forward = st::compile(
        [&](const st::Array& q, const st::Array& k, const st::Array& v) -> List {
          const auto r = st::attention_with_stats(q, k, v, options);
          return {r.out, r.stats};
        },
        operands_[1], operands_[2], operands_[3]);
    for (const st::Array& result : forward(operands_[1], operands_[2], operands_[3]))
      operands_.push_back(result);
  }
  /// Copies to the host come behind all work on the stream.
  void wait() const { last_.item<float>(); }

  st::Array last_;
  List operands_;
  std::function<void()> call_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string where = argc == 2 ? argv[1] : "";
  if (where != "cpu" && where != "cuda") {
    std::fprintf(stderr, "usage: stiletto_timed_calls cpu|cuda, and see benchmarks/timed_calls.cpp\n");
    return 1;
  }
  const st::Device device = where == "cpu" ? st::Device::cpu() : st::Device::cuda(0);
  std::unique_ptr<Prepared> prepared;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, kind, dtype;
    words >> command;
    try {
      if (command == "prepare") {
        words >> kind >> dtype;
        prepared.reset();
        const Sizes sizes{std::istream_iterator<std::int64_t>(words), {}};
        prepared = std::make_unique<Prepared>(kind, dtype_named(dtype), sizes, device);
        std::printf("ready\n");
      } else {
        if (prepared == nullptr) throw std::runtime_error("nothing is prepared");
        int calls = 1;
        words >> calls;
        std::printf("%.3f\n", prepared->microseconds(calls));
      }
    } catch (const std::exception& error) {
      std::string text = error.what();
      std::printf("refused: %s\n", text.substr(0, text.find('\n')).c_str());
    }
    std::fflush(stdout);
  }
}
