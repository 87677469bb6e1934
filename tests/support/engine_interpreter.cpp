// SPDX-License-Identifier: Apache-2.0
#include "support/engine_interpreter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "graph/op_table.hpp"
#include "support/block_interpreter.hpp"
#include "support/numbers.hpp"
#include "support/structured_interpreter.hpp"

namespace support {
namespace {

using stiletto::detail::Family;
using stiletto::detail::Invocation;
using stiletto::detail::Op;
using stiletto::detail::row_of;
using stiletto::detail::cudnn::EngineGraph;
using stiletto::detail::cudnn::EngineNode;
using stiletto::detail::cudnn::EngineTensor;
using Dims = std::vector<std::int64_t>;

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(std::string("an engine graph without a meaning: ") + what);
}

// ---- indices ----

/// Calls visit(offsets), one offset for each list of strides, for every index of `dims`, in no order that
/// matters: the longest dimension is the inner loop.
template <std::size_t count, class Visit>
void walk(const Dims& dims, const std::array<Dims, count>& strides, Visit visit) {
  const auto inner = static_cast<std::size_t>(std::max_element(dims.begin(), dims.end()) - dims.begin());
  Dims index(dims.size());
  std::array<std::int64_t, count> row{};
  for (std::size_t d = 0; d < dims.size();) {
    std::array<std::int64_t, count> at = row;
    for (std::int64_t i = 0; i < dims[inner]; ++i) {
      visit(at);
      for (std::size_t k = 0; k < count; ++k) at[k] += strides[k][inner];
    }
    for (d = 0; d < dims.size(); ++d) {
      if (d == inner) continue;
      const bool next = ++index[d] < dims[d];
      for (std::size_t k = 0; k < count; ++k) row[k] += strides[k][d] * (next ? 1 : 1 - dims[d]);
      if (next) break;
      index[d] = 0;
    }
  }
}

std::int64_t size_of(const Dims& dims) {
  std::int64_t size = 1;
  for (const std::int64_t dim : dims) size *= dim;
  return size;
}

Dims row_major(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return strides;
}

/// Of row-major values over `dims`, walked by an index of `whole`: dims of 1 stand still.
Dims broadcast(const Dims& dims, const Dims& whole) {
  require(dims.size() == whole.size(), "ranks differ");
  Dims strides = row_major(dims);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    require(dims[i] == 1 || dims[i] == whole[i], "dims that do not broadcast");
    if (dims[i] == 1) strides[i] = 0;
  }
  return strides;
}

// ---- numbers ----

/// A conversion of cuDNN's: to the nearest, ties to even; integers saturate, and float8 becomes NaN beyond
/// its range. Booleans are int8 to cuDNN.
double rounded(double x, DType dtype, Rounding rounding) {
  switch (dtype) {
    case DType::float64:
      return x;
    case DType::float32:
      return rounding == Rounding::exact ? x : static_cast<float>(x);
    case DType::float16:
    case DType::bfloat16: {
      if (x == 0 || !std::isfinite(x)) return x;
      const Format format = format_of(dtype);
      const double unit = std::ldexp(1.0, std::max(std::ilogb(x), 1 - format.bias) - format.mantissa_bits);
      const double nearest = std::nearbyint(x / unit) * unit;
      return std::fabs(nearest) > static_cast<double>(format.largest) ? std::copysign(INFINITY, x) : nearest;
    }
    case DType::float4_e2m1:
      return static_cast<double>(round_float(x, dtype));
    case DType::float8_e4m3:
    case DType::float8_e5m2: {
      // Half a step beyond the largest value still rounds to it.
      const Format format = format_of(dtype);
      const double step = std::ldexp(1.0, std::ilogb(format.largest) - format.mantissa_bits);
      if (std::fabs(x) > static_cast<double>(format.largest) + step / 2) return NAN;
      return static_cast<double>(round_float(x, dtype));
    }
    case DType::boolean:
    case DType::int8:
    case DType::uint8:
    case DType::int32: {
      if (std::isnan(x)) return 0;
      const DType held = dtype == DType::boolean ? DType::int8 : dtype;
      return std::clamp(std::nearbyint(x), static_cast<double>(lowest_integer(held)),
                        static_cast<double>(highest_integer(held)));
    }
    default:
      require(false, "a type that cuDNN does not compute");
      return 0;
  }
}

/// MAX and MIN of reductions drop NaN, RELU keeps it.
double relu(double x, double lower) { return x < lower ? lower : x; }

double pointwise(const EngineNode& node, double x, double y, double z) {
  const double c = static_cast<float>(node.coefficient);
  switch (node.op) {
    case Op::copy:
      return x;
    case Op::negate:
      return -x;
    case Op::logical_not:
      return x == 0;
    case Op::abs:
      return std::fabs(x);
    case Op::exp:
      return std::exp(x);
    case Op::log:
      return std::log(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::rsqrt:
      return 1 / std::sqrt(x);
    case Op::reciprocal:
      return 1 / x;
    case Op::sin:
      return std::sin(x);
    case Op::cos:
      return std::cos(x);
    case Op::tan:
      return std::tan(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::erf:
      return std::erf(x);
    case Op::ceil:
      return std::ceil(x);
    case Op::floor:
      return std::floor(x);
    case Op::relu:
      return relu(x, static_cast<float>(node.lower));
    case Op::leaky_relu:  // measured: the greater of the two, not a choice by sign
      return x > 0 && c <= 1 ? x : x > c * x ? x : c * x;
    case Op::clipped_relu: {
      const double clipped = relu(x, 0);
      return clipped > c ? c : clipped;
    }
    case Op::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Op::silu:
      return x / (1 + std::exp(-x));
    case Op::softplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    case Op::elu:
      return x < 0 ? c * std::expm1(x) : x;
    case Op::gelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case Op::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Op::add:
      return x + y;
    case Op::subtract:
      return x - y;
    case Op::multiply:
      return x * y;
    case Op::divide:
      return x / y;
    case Op::less:
      return x < y;
    case Op::less_equal:
      return x <= y;
    case Op::greater:
      return x > y;
    case Op::greater_equal:
      return x >= y;
    case Op::equal:
      return x == y;
    case Op::not_equal:
      return x != y;
    case Op::logical_and:
      return x != 0 && y != 0;
    case Op::logical_or:
      return x != 0 || y != 0;
    case Op::pow:
      return std::pow(x, y);
    case Op::fmod:
      return std::fmod(x, y);
    case Op::where:
      return z != 0 ? x : y;
    default:
      require(false, "an operation that is no mode of cuDNN's");
      return 0;
  }
}

std::size_t operands_of(Op op) {
  if (op == Op::where) return 3;
  return op >= Op::add && op <= Op::fmod ? 2 : 1;
}

struct Reduction {
  double first;
  double (*join)(double, double);
};

Reduction reduction_of(Op op) {
  switch (op) {
    case Op::sum:
      return {0, [](double total, double x) { return total + x; }};
    case Op::prod:
      return {1, [](double total, double x) { return total * x; }};
    case Op::max:
      return {-INFINITY, [](double total, double x) { return std::fmax(total, x); }};
    case Op::min:
      return {INFINITY, [](double total, double x) { return std::fmin(total, x); }};
    default:
      return {0, nullptr};
  }
}

// ---- graphs ----

class Interpreter {
 public:
  Interpreter(const EngineGraph& graph, const Invocation& call, Rounding rounding)
      : graph_(graph), call_(call), rounding_(rounding), values_(graph.tensors.size()) {}

  bool run() {
    std::vector<std::size_t> last(values_.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      for (const std::uint32_t input : graph_.nodes[i].inputs) last[input] = i;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const EngineNode& node = graph_.nodes[i];
      for (const std::uint32_t input : node.inputs)
        if (values_[input].empty()) read(input);
      require(values_[node.output].empty(), "a tensor that is computed twice");
      if (row_of(node.op).family == Family::structured)
        structured(node);
      else
        compute(node);
      node.each_result([&](std::uint32_t result) {
        if (graph_.tensors[result].role == EngineTensor::Role::output) write(result);
      });
      for (const std::uint32_t input : node.inputs)
        if (last[input] == i) values_[input] = {};  // large graphs would not fit
    }
    return rounds_;
  }

 private:
  using Values = std::vector<double>;  // row-major over the tensor's dims
  using Operands = std::array<const double*, 3>;

  void read(std::uint32_t index) {
    const EngineTensor& t = graph_.tensors[index];
    Values& values = values_[index];
    values.resize(static_cast<std::size_t>(size_of(t.dims)));
    switch (t.role) {
      case EngineTensor::Role::input:
        walk<2>(t.dims, {row_major(t.dims), t.strides}, [&](const auto& at) {
          values[static_cast<std::size_t>(at[0])] =
              static_cast<double>(load(call_.tensors[t.source], at[1], t.dtype));
        });
        return;
      case EngineTensor::Role::number:  // bound as float, whatever its type
        values.at(0) = static_cast<float>(call_.scalars[t.source].as_double());
        return;
      case EngineTensor::Role::constant:
        values.at(0) = static_cast<float>(t.value);
        return;
      case EngineTensor::Role::ones:
        std::fill(values.begin(), values.end(), 1.0);
        return;
      default:
        require(false, "a tensor that is read before it is computed");
    }
  }

  void write(std::uint32_t index) const {
    const EngineTensor& t = graph_.tensors[index];
    const DType held = t.dtype == DType::boolean ? DType::int8 : t.dtype;  // a byte of 5 would stay one
    walk<2>(t.dims, {row_major(t.dims), t.strides}, [&](const auto& at) {
      store(call_.stores[t.source], at[1], held, values_[index][static_cast<std::size_t>(at[0])]);
    });
  }

  void structured(const EngineNode& node) {
    if (node.op == Op::quantize) return interpret_blocks(graph_, node, values_);  // codes, exactly
    if (node.op == Op::dequantize)
      interpret_blocks(graph_, node, values_);
    else if (node.op == Op::attention_blockscaled)
      interpret_structured(graph_, without_blocks(graph_, node, values_), values_, is_exact());
    else
      interpret_structured(graph_, node, values_, is_exact());
    node.each_result([&](std::uint32_t result) {
      for (double& x : values_[result]) round(x, graph_.tensors[result].dtype);
    });
    rounds_ = rounds_ || node.op != Op::dequantize;
  }

  bool is_exact() const { return rounding_ == Rounding::exact; }

  void round(double& x, DType dtype) {
    const double before = x;
    x = rounded(x, dtype, rounding_);
    rounds_ = rounds_ || (x != before && !std::isnan(before));
  }

  void compute(const EngineNode& node) {
    const EngineTensor& t = graph_.tensors[node.output];
    Values& out = values_[node.output];
    std::array<Values, 3> converted;
    Operands operands{};
    require(!node.inputs.empty() && node.inputs.size() <= operands.size(), "the wrong number of operands");
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      operands[i] = as_computed(node.inputs[i], node.compute, converted[i]);
    if (node.op == Op::matmul)
      product(node, operands, out);
    else if (reduction_of(node.op).join != nullptr)
      reduce(node, operands, out);
    else
      elementwise(node, operands, out);
    for (double& x : out) {
      if (node.compute != DType::boolean) round(x, node.compute);
      round(x, t.dtype);
    }
  }

  /// Operands are converted to the type that the node computes in, those that it cannot hold in `converted`.
  const double* as_computed(std::uint32_t input, DType compute, Values& converted) const {
    const DType dtype = graph_.tensors[input].dtype;
    const bool fits =
        dtype == compute || compute == DType::float64 || (compute == DType::float32 && bits_of(dtype) < 32);
    if (fits) return values_[input].data();
    converted = values_[input];
    for (double& x : converted) x = compute == DType::boolean ? x != 0 : rounded(x, compute, rounding_);
    return converted.data();
  }

  const Dims& dims_of(std::uint32_t tensor) const { return graph_.tensors[tensor].dims; }

  void elementwise(const EngineNode& node, Operands operands, Values& out) const {
    require(node.inputs.size() == operands_of(node.op), "the wrong number of operands");
    const Dims& dims = dims_of(node.output);
    std::array<Dims, 4> strides{row_major(dims), Dims(dims.size()), Dims(dims.size()), Dims(dims.size())};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (i < node.inputs.size())
        strides[i + 1] = broadcast(dims_of(node.inputs[i]), dims);
      else
        operands[i] = operands[0];  // not looked at
    }
    out.resize(static_cast<std::size_t>(size_of(dims)));
    walk(dims, strides, [&](const auto& at) {
      out[static_cast<std::size_t>(at[0])] =
          pointwise(node, operands[0][at[1]], operands[1][at[2]], operands[2][at[3]]);
    });
  }

  void reduce(const EngineNode& node, Operands operands, Values& out) const {
    const Dims& from = dims_of(node.inputs[0]);
    const Dims& dims = dims_of(node.output);
    const Reduction reduction = reduction_of(node.op);
    out.assign(static_cast<std::size_t>(size_of(dims)), reduction.first);
    walk<2>(from, {row_major(from), broadcast(dims, from)}, [&](const auto& at) {
      double& total = out[static_cast<std::size_t>(at[1])];
      total = reduction.join(total, operands[0][at[0]]);
    });
  }

  void product(const EngineNode& node, Operands operands, Values& out) const {
    const Dims& left = dims_of(node.inputs[0]);
    const Dims& right = dims_of(node.inputs[1]);
    const Dims& dims = dims_of(node.output);
    const std::size_t row = dims.size() - 2, column = dims.size() - 1;
    const std::int64_t inner = left[column];
    require(inner == right[row], "a product over dims that differ");
    require(dims[row] == left[row] && dims[column] == right[column],
            "a product of other dims than its operands");
    for (std::size_t i = 0; i < row; ++i)
      require(dims[i] == std::max(left[i], right[i]), "a product with a batch that no operand has");
    // Along the dims of the result; what is summed over stands still there.
    Dims left_space = dims, right_space = dims;
    left_space[column] = inner;
    right_space[row] = inner;
    std::array<Dims, 3> strides{row_major(dims), broadcast(left, left_space), broadcast(right, right_space)};
    strides[1][column] = strides[2][row] = 0;
    out.assign(static_cast<std::size_t>(size_of(dims)), 0);
    walk(dims, strides, [&](const auto& at) {
      const double* const x = operands[0] + at[1];
      const double* const y = operands[1] + at[2];
      double& result = out[static_cast<std::size_t>(at[0])];
      if (node.compute == DType::int32) {
        std::uint32_t total = 0;  // wraps
        for (std::int64_t k = 0; k < inner; ++k)
          total += static_cast<std::uint32_t>(static_cast<std::int64_t>(x[k])) *
                   static_cast<std::uint32_t>(static_cast<std::int64_t>(y[k * right[column]]));
        result = static_cast<std::int32_t>(total);
      } else {
        for (std::int64_t k = 0; k < inner; ++k) result += x[k] * y[k * right[column]];
      }
    });
  }

  const EngineGraph& graph_;
  const Invocation& call_;
  Rounding rounding_;
  bool rounds_ = false;
  std::vector<Values> values_;
};

}  // namespace

bool interpret(const EngineGraph& graph, const Invocation& call, Rounding rounding) {
  return Interpreter(graph, call, rounding).run();
}

}  // namespace support
