// SPDX-License-Identifier: Apache-2.0
// One row per elementwise operation: how to call it, what it means, what it gives for each type, and the
// range of operands in which its result is well conditioned. A new operation joins the numeric tests by a row
// here.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "support/layouts.hpp"
#include "support/reference.hpp"

namespace support {

using Function = std::function<Array(const std::vector<Array>&)>;

enum class Result { promoted, boolean, floating };

/// What an operation makes of booleans: takes them, throws DTypeError, or the specification is silent.
enum class Booleans { taken, refused, unspecified };

struct Operation {
  std::string name;
  std::size_t arity;
  Function call;
  Result result;
  RealFunction real;
  IntegerFunction integer = {};      // where integers stay integers
  std::vector<Range> ranges = {{}};  // of operands; the last one serves the rest
  std::vector<Range> integers = {};  // of integer operands, where they differ
  Booleans booleans = Booleans::taken;
  bool has_condition = false;  // the first operand is boolean

  DType result_dtype(DType operands) const {
    if (result == Result::boolean) return DType::boolean;
    if (result == Result::floating || !integer) return support::floating(operands);
    return operands;
  }
  DType operand_dtype(std::size_t i, DType dtype) const {
    return has_condition && i == 0 ? DType::boolean : dtype;
  }
  Range range(std::size_t i, DType dtype) const {
    const auto& list = is_exact(dtype) && !integers.empty() ? integers : ranges;
    return i < list.size() ? list[i] : list.back();
  }
  /// Operands already of one type, and of the condition's.
  Tensor reference(const std::vector<Tensor>& operands) const {
    const DType dtype = operands.back().dtype;
    const DType out = result_dtype(dtype);
    return is_exact(dtype) && integer ? map_integer(out, operands, integer) : map(out, operands, real);
  }
};

namespace detail {

inline Function unary(Array (*f)(const Array&)) {
  return [f](const std::vector<Array>& a) { return f(a[0]); };
}
inline Function unary(Array (*f)(const Array&, double), double attribute) {
  return [f, attribute](const std::vector<Array>& a) { return f(a[0], attribute); };
}
inline Function binary(Array (*f)(const Array&, const Array&)) {
  return [f](const std::vector<Array>& a) { return f(a[0], a[1]); };
}
inline Function ternary(Array (*f)(const Array&, const Array&, const Array&)) {
  return [f](const std::vector<Array>& a) { return f(a[0], a[1], a[2]); };
}

template <class F>
RealFunction of(F f) {
  return [f](const Real* v) { return f(v[0]); };
}

inline std::vector<Operation> make_arithmetic() {
  using I = const std::int64_t*;
  using R = const Real*;
  const Range any{}, whole{-9.2e18L, 9.2e18L};
  return {
      {"add",
       2,
       binary(stiletto::operator+),
       Result::promoted,
       [](R v) { return v[0] + v[1]; },
       [](I v) { return scalar::add(v[0], v[1]); },
       {any},
       {whole}},
      {"subtract",
       2,
       binary(stiletto::operator-),
       Result::promoted,
       [](R v) { return v[0] - v[1]; },
       [](I v) { return scalar::subtract(v[0], v[1]); },
       {any},
       {whole},
       Booleans::refused},
      {"multiply",
       2,
       binary(stiletto::operator*),
       Result::promoted,
       [](R v) { return v[0] * v[1]; },
       [](I v) { return scalar::multiply(v[0], v[1]); },
       {any},
       {whole}},
      {"divide",
       2,
       binary(stiletto::operator/),
       Result::floating,
       [](R v) { return v[0] / v[1]; },
       {},
       {{-3, 3}, {0.5, 4}},
       {},
       Booleans::unspecified},
      {"negate",
       1,
       unary(stiletto::operator-),
       Result::promoted,
       [](R v) { return -v[0]; },
       [](I v) { return scalar::subtract(0, v[0]); },
       {any},
       {whole},
       Booleans::refused},
      {"maximum",
       2,
       binary(stiletto::maximum),
       Result::promoted,
       [](R v) { return scalar::maximum(v[0], v[1]); },
       [](I v) { return std::max(v[0], v[1]); },
       {any},
       {whole}},
      {"minimum",
       2,
       binary(stiletto::minimum),
       Result::promoted,
       [](R v) { return scalar::minimum(v[0], v[1]); },
       [](I v) { return std::min(v[0], v[1]); },
       {any},
       {whole}},
      {"fmod",
       2,
       binary(stiletto::fmod),
       Result::promoted,
       [](R v) { return std::fmod(v[0], v[1]); },
       [](I v) { return v[1] == 0 ? 0 : v[0] % v[1]; },
       {{-9, 9}, {0.5, 4}},
       {{-100, 100}, {-5, 5}},
       Booleans::unspecified},
      {"pow",
       2,
       binary(stiletto::pow),
       Result::floating,
       [](R v) { return std::pow(v[0], v[1]); },
       {},
       {{0.1L, 4}, {-3, 3}},
       {},
       Booleans::unspecified},
      {"atan2",
       2,
       binary(stiletto::atan2),
       Result::floating,
       [](R v) { return std::atan2(v[0], v[1]); },
       {},
       {any},
       {},
       Booleans::unspecified},
      {"where",
       3,
       ternary(stiletto::where),
       Result::promoted,
       [](R v) { return v[0] != 0 ? v[1] : v[2]; },
       [](I v) { return v[0] != 0 ? v[1] : v[2]; },
       {any},
       {whole},
       Booleans::taken,
       true},
      {"clamp",
       3,
       ternary(stiletto::clamp),
       Result::promoted,
       [](R v) { return scalar::minimum(scalar::maximum(v[0], v[1]), v[2]); },
       [](I v) { return std::min(std::max(v[0], v[1]), v[2]); },
       {{-3, 3}, {-1, 0}, {0.5L, 2}},
       {},
       Booleans::unspecified},
      {"abs",
       1,
       unary(stiletto::abs),
       Result::promoted,
       of([](Real x) { return std::fabs(x); }),
       [](I v) { return scalar::absolute(v[0]); },
       {any},
       {whole},
       Booleans::unspecified},
      {"square",
       1,
       unary(stiletto::square),
       Result::promoted,
       of([](Real x) { return x * x; }),
       [](I v) { return scalar::multiply(v[0], v[0]); },
       {any},
       {whole},
       Booleans::unspecified},
      {"ceil",
       1,
       unary(stiletto::ceil),
       Result::promoted,
       of([](Real x) { return std::ceil(x); }),
       [](I v) { return v[0]; },
       {any},
       {whole},
       Booleans::unspecified},
      {"floor",
       1,
       unary(stiletto::floor),
       Result::promoted,
       of([](Real x) { return std::floor(x); }),
       [](I v) { return v[0]; },
       {any},
       {whole},
       Booleans::unspecified},
      {"relu",
       1,
       unary(stiletto::relu),
       Result::promoted,
       of([](Real x) { return scalar::maximum(x, 0); }),
       [](I v) { return std::max<std::int64_t>(v[0], 0); },
       {any},
       {whole},
       Booleans::unspecified},
  };
}

inline std::vector<Operation> make_comparisons() {
  using R = const Real*;
  const Range few{-2, 2};
  auto row = [&](const char* name, Function call, RealFunction real) {
    return Operation{name, 2, std::move(call), Result::boolean, std::move(real), {}, {few}};
  };
  return {
      row("less", binary(stiletto::operator<), [](R v) -> Real { return v[0] < v[1]; }),
      row("less_equal", binary(stiletto::operator<=), [](R v) -> Real { return v[0] <= v[1]; }),
      row("greater", binary(stiletto::operator>), [](R v) -> Real { return v[0] > v[1]; }),
      row("greater_equal", binary(stiletto::operator>=), [](R v) -> Real { return v[0] >= v[1]; }),
      row("equal", binary(stiletto::operator==), [](R v) -> Real { return v[0] == v[1]; }),
      row("not_equal", binary(stiletto::operator!=), [](R v) -> Real { return v[0] != v[1]; }),
      row("logical_and", binary(stiletto::logical_and), [](R v) -> Real { return v[0] != 0 && v[1] != 0; }),
      row("logical_or", binary(stiletto::logical_or), [](R v) -> Real { return v[0] != 0 || v[1] != 0; }),
      {"logical_not",
       1,
       unary(stiletto::logical_not),
       Result::boolean,
       [](R v) -> Real { return v[0] == 0; },
       {},
       {few}},
  };
}

inline std::vector<Operation> make_transcendental() {
  auto row = [](const char* name, Array (*f)(const Array&), Range range, auto real) {
    return Operation{name, 1, unary(f), Result::floating, of(real), {}, {range}, {}, Booleans::unspecified};
  };
  auto with = [](const char* name, Array (*f)(const Array&, double), double attribute, auto real) {
    return Operation{name, 1,  unary(f, attribute),  Result::floating, of(real), {},
                     {},   {}, Booleans::unspecified};
  };
  std::vector<Operation> rows = {
      row("exp", stiletto::exp, {-6, 6}, [](Real x) { return std::exp(x); }),
      row("log", stiletto::log, {0.05L, 20}, [](Real x) { return std::log(x); }),
      row("sqrt", stiletto::sqrt, {0, 20}, [](Real x) { return std::sqrt(x); }),
      row("rsqrt", stiletto::rsqrt, {0.05L, 20}, [](Real x) { return 1 / std::sqrt(x); }),
      row("reciprocal", stiletto::reciprocal, {0.25L, 4}, [](Real x) { return 1 / x; }),
      row("sin", stiletto::sin, {-20, 20}, [](Real x) { return std::sin(x); }),
      row("cos", stiletto::cos, {-20, 20}, [](Real x) { return std::cos(x); }),
      row("tan", stiletto::tan, {-1.4L, 1.4L}, [](Real x) { return std::tan(x); }),
      row("tanh", stiletto::tanh, {-5, 5}, [](Real x) { return std::tanh(x); }),
      row("erf", stiletto::erf, {-4, 4}, [](Real x) { return std::erf(x); }),
      row("sigmoid", stiletto::sigmoid, {-9, 9}, scalar::sigmoid),
      row("silu", stiletto::silu, {-9, 9}, scalar::silu),
      row("softplus", stiletto::softplus, {-9, 9}, scalar::softplus),
      row("gelu", stiletto::gelu, {-5, 5}, scalar::gelu),
      row("gelu_tanh", stiletto::gelu_tanh, {-5, 5}, scalar::gelu_tanh),
      with("leaky_relu", stiletto::leaky_relu, 0.01, [](Real x) { return x > 0 ? x : Real{0.01L} * x; }),
      with("leaky_relu_steep", stiletto::leaky_relu, 2.5, [](Real x) { return x > 0 ? x : Real{2.5} * x; }),
      with("clipped_relu", stiletto::clipped_relu, 1.25,
           [](Real x) { return scalar::minimum(scalar::maximum(x, 0), Real{1.25}); }),
      with("elu", stiletto::elu, 1, [](Real x) { return scalar::elu(x, 1); }),
      with("elu_scaled", stiletto::elu, 0.3, [](Real x) { return scalar::elu(x, Real{0.3L}); }),
  };
  for (Operation& row : rows)
    if (row.ranges.empty()) row.ranges = {{-5, 5}};
  return rows;
}
}  // namespace detail

inline const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> rows = detail::make_arithmetic();
    for (auto make : {detail::make_comparisons, detail::make_transcendental})
      for (Operation& row : make()) rows.push_back(std::move(row));
    return rows;
  }();
  return all;
}

inline const Operation& operation(const std::string& name) {
  for (const Operation& row : operations())
    if (row.name == name) return row;
  throw std::logic_error("no operation " + name);
}

// ---- calling ----

enum class Mode { jit, compiled, eager };

inline const char* to_string(Mode mode) {
  return mode == Mode::jit ? "jit" : mode == Mode::compiled ? "compiled" : "eager";
}

/// Calls `f` with up to three arrays as separate arguments, more as one vector.
/// Several results of one graph.
inline std::vector<Array> run_all(const std::function<std::vector<Array>(const std::vector<Array>&)>& f,
                                  const std::vector<Array>& a, Mode mode) {
  if (mode == Mode::eager) return f(a);
  return mode == Mode::jit ? stiletto::jit(f, a) : stiletto::compile(f, a)(a);
}

inline Array run(const Function& f, const std::vector<Array>& a, Mode mode,
                 const stiletto::CompileOptions& options = {}) {
  if (mode == Mode::eager) return f(a);
  auto one = [&](const Array& x) { return f({x}); };
  auto two = [&](const Array& x, const Array& y) { return f({x, y}); };
  auto three = [&](const Array& x, const Array& y, const Array& z) { return f({x, y, z}); };
  if (mode == Mode::jit) {
    if (a.size() == 1) return stiletto::jit(options, one, a[0]);
    if (a.size() == 2) return stiletto::jit(options, two, a[0], a[1]);
    if (a.size() == 3) return stiletto::jit(options, three, a[0], a[1], a[2]);
    return stiletto::jit(options, f, a);
  }
  if (a.size() == 1) return stiletto::compile(options, one, a[0])(a[0]);
  if (a.size() == 2) return stiletto::compile(options, two, a[0], a[1])(a[0], a[1]);
  if (a.size() == 3) return stiletto::compile(options, three, a[0], a[1], a[2])(a[0], a[1], a[2]);
  return stiletto::compile(options, f, a)(a);
}

}  // namespace support
