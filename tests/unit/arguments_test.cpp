// SPDX-License-Identifier: Apache-2.0
// What may be passed to a traced function and come back from it: tuples, pairs, vectors, arrays and opted-in
// structs, scalars among them, any number of arrays, and every kind of function object.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "stiletto/stiletto.hpp"
#include "unit/error_text.hpp"

namespace {

using stiletto::Array;
using stiletto::compile;
using stiletto::DType;
using stiletto::jit;
using Floats = std::vector<float>;

Array filled(float value) { return stiletto::full({2}, value); }
Floats floats(const Array& x) { return x.to_vector<float>(); }

struct Linear {
  Array weight, bias;
  int repeat = 1;  // a constant of the trace
  auto fields() { return std::tie(weight, bias); }
};
struct Block {
  Linear first, second;
  std::vector<Array> extra;
  auto fields() { return std::tie(first, second, extra); }
};

// ---- arguments ------------------------------------------------------------------------------------------

TEST(TracedArguments, scalars_arrive_as_rank_0_arrays) {
  auto f = [](const Array& x, const Array& s, const Array& flag) {
    EXPECT_TRUE(s.is_traced());
    EXPECT_EQ(s.rank(), 0);
    return stiletto::where(flag, x * s, x);
  };
  const Array x = filled(3);
  const auto c = compile(f, x, 2.0F, true);
  static_assert(std::is_same_v<decltype(c), const stiletto::Compiled<Array(Array, Array, Array)>>);
  EXPECT_EQ(floats(c(x, 2.0F, true)), (Floats{6, 6}));
  EXPECT_EQ(floats(c(x, 5.0, true)), (Floats{15, 15})) << "bound at each call";
  EXPECT_EQ(floats(c(x, 5, false)), (Floats{3, 3})) << "an integer for a real number";
  EXPECT_EQ(floats(jit(f, x, 4.0F, true)), (Floats{12, 12}));
}

TEST(TracedArguments, tuples_and_pairs_of_arrays_and_scalars) {
  using Nested = std::tuple<Array, std::pair<float, Array>, int>;
  auto f = [](const std::tuple<Array, std::pair<Array, Array>, Array>& t) {
    const auto& [x, p, n] = t;
    return x * p.first + p.second * n;
  };
  const Nested t(filled(3), {2.0F, filled(10)}, 4);
  const auto c = compile(f, t);
  EXPECT_EQ(floats(jit(f, t)), (Floats{46, 46}));
  EXPECT_EQ(floats(c({filled(3), {Array(5.0F), filled(1)}, Array(2)})), (Floats{17, 17}));
}

TEST(TracedArguments, vectors_and_std_arrays) {
  auto total = [](const std::vector<Array>& v, const std::array<Array, 2>& a) {
    Array result = v[0];
    for (std::size_t i = 1; i < v.size(); ++i) result = result + v[i];
    return result - a[0] * a[1];
  };
  const std::vector<Array> v{filled(1), filled(2), filled(3)};
  const std::array<Array, 2> a{filled(2), filled(5)};
  const auto c = compile(total, v, a);
  EXPECT_EQ(floats(c(v, a)), (Floats{-4, -4}));
  EXPECT_EQ(floats(jit(total, v, a)), (Floats{-4, -4}));
  const std::vector<Array> shorter{filled(1), filled(2)};
  EXPECT_THROW(c(shorter, a), stiletto::ArgumentError) << "containers keep their sizes";
  EXPECT_EQ(floats(jit(total, shorter, a)), (Floats{-7, -7})) << "jit makes another plan";
}

TEST(TracedArguments, each_container_keeps_its_size) {
  auto f = [](const std::vector<Array>& a, const std::vector<Array>& b) { return a[0] - a[1] + b[0]; };
  const Array x = filled(1), y = filled(2), z = filled(3);
  const auto c = compile(f, std::vector<Array>{x, y}, std::vector<Array>{z});
  EXPECT_EQ(floats(c({x, y}, {z})), (Floats{2, 2}));
  EXPECT_THROW(c({x}, {y, z}), stiletto::ArgumentError) << "three arrays in all are not enough";
}

TEST(TracedArguments, structs_with_fields) {
  auto apply = [](const Linear& l, const Array& x) {
    Array y = x;
    for (int i = 0; i < l.repeat; ++i) y = y * l.weight + l.bias;
    return y;
  };
  Linear l{filled(2), filled(1)};
  const Array x = filled(3);
  EXPECT_EQ(floats(jit(apply, l, x)), (Floats{7, 7}));
  l.repeat = 2;
  EXPECT_EQ(floats(jit(apply, l, x)), (Floats{15, 15})) << "other members are read while tracing";
  const Linear constant = l;
  EXPECT_EQ(floats(jit(apply, constant, x)), (Floats{15, 15}));
  const auto c = compile(apply, l, x);
  l.repeat = 5;
  EXPECT_EQ(floats(c(l, x)), (Floats{15, 15})) << "and are constants from then on";
}

TEST(TracedArguments, structs_in_structs_and_containers) {
  auto sum_up = [](const Block& b, const std::vector<Linear>& list, const std::tuple<Linear, Array>& t) {
    Array result = b.first.weight + b.first.bias + b.second.weight + b.second.bias;
    for (const Array& x : b.extra) result = result + x;
    for (const Linear& l : list) result = result + l.weight * l.bias;
    return result + std::get<0>(t).weight * std::get<0>(t).bias * std::get<1>(t);
  };
  const Block b{{filled(1), filled(2)}, {filled(3), filled(4)}, {filled(5), filled(6)}};
  const std::vector<Linear> list{{filled(2), filled(3)}, {filled(1), filled(1)}};
  const std::tuple<Linear, float> t(Linear{filled(2), filled(2)}, 10.0F);
  EXPECT_EQ(floats(jit(sum_up, b, list, t)), (Floats{68, 68}));
  const auto c = compile(sum_up, b, list, t);
  EXPECT_EQ(floats(c(b, list, {Linear{filled(2), filled(2)}, Array(1.0F)})), (Floats{32, 32}));
  EXPECT_EQ(c.bindings(b, list, {Linear{filled(2), filled(2)}, Array(1.0F)}).bindings.names(),
            (std::vector<std::string>{"arg0.0", "arg0.1", "arg0.2", "arg0.3", "arg0.4", "arg0.5", "arg1.0",
                                      "arg1.1", "arg1.2", "arg1.3", "arg2.0", "arg2.1", "scalar0", "out0"}));
}

TEST(TracedArguments, none_and_empty_ones) {
  const Array w = filled(4);
  EXPECT_EQ(floats(jit([&] { return w * 2; })), (Floats{8, 8})) << "captures alone";
  EXPECT_EQ(floats(compile([&] { return w * 3; })()), (Floats{12, 12}));
  auto f = [](const Array& x, const std::vector<Array>& rest) {
    EXPECT_TRUE(rest.empty());
    return x * 2;
  };
  EXPECT_EQ(floats(jit(f, w, std::vector<Array>{})), (Floats{8, 8}));
}

TEST(TracedArguments, more_than_sixteen) {
  auto twenty = [](const auto&... x) { return (x + ...); };
  const Array a = filled(1);
  EXPECT_EQ(floats(jit(twenty, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a)),
            (Floats{20, 20}));
  const auto c = compile(twenty, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a);
  const Array b = filled(2);
  EXPECT_EQ(floats(c(b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, a)), (Floats{33, 33}));
  auto list = [](const std::vector<Array>& v) {
    Array result = v[0];
    for (std::size_t i = 1; i < v.size(); ++i) result = result + v[i] * static_cast<int>(i);
    return result;
  };
  std::vector<Array> many;
  many.reserve(100);
  for (int i = 0; i < 100; ++i) many.push_back(filled(1));
  const Array result = jit(list, many);
  EXPECT_EQ(floats(result), (Floats{4951, 4951}));
  for (std::size_t n : {15U, 16U, 17U, 18U}) {
    const std::vector<Array> some(many.begin(), many.begin() + static_cast<std::ptrdiff_t>(n));
    const auto k = static_cast<float>(n);
    EXPECT_EQ(floats(compile(list, some)(some)), Floats(2, 1 + k * (k - 1) / 2)) << n;
  }
}

TEST(TracedArguments, many_parameters_of_their_own_shapes) {
  // A step of gradient descent over the parameters of a deep network: nothing is shared between them.
  std::vector<Array> parameters, gradients;
  for (std::int64_t i = 1; i <= 40; ++i) {
    parameters.push_back(stiletto::ones({i, i + 1}));
    gradients.push_back(stiletto::ones({i, i + 1}));
  }
  auto step = [](const std::vector<Array>& p, const std::vector<Array>& g) {
    for (std::size_t i = 0; i < p.size(); ++i) stiletto::assign(p[i], p[i] - 0.5 * g[i]);
  };
  jit(step, parameters, gradients);
  for (const Array& p : parameters) EXPECT_EQ(p.at<float>({0, 0}), 0.5F);
}

TEST(TracedArguments, the_same_array_twice) {
  const Array x = filled(3);
  auto f = [](const Array& a, const Array& b) { return a * b; };
  EXPECT_EQ(floats(jit(f, x, x)), (Floats{9, 9}));
  const auto c = compile(f, x, x);
  EXPECT_EQ(floats(c(x, filled(5))), (Floats{15, 15})) << "two arguments all the same";
}

// ---- results --------------------------------------------------------------------------------------------

TEST(TracedResults, containers_and_structs) {
  const Array x = filled(3);
  auto as_tuple = [](const Array& a) { return std::tuple<Array, Array>(a + 1, a * 2); };
  auto as_pair = [](const Array& a) { return std::pair<Array, std::vector<Array>>(a + 1, {a * 2, a * 3}); };
  auto as_array = [](const Array& a) { return std::array<Array, 2>{a + 1, a * 2}; };
  auto as_vector = [](const Array& a) { return std::vector<Array>{a + 1, a * 2, a * 3}; };
  auto as_struct = [](const Array& a) { return Linear{a + 1, a * 2, 7}; };
  const auto [t0, t1] = jit(as_tuple, x);
  EXPECT_EQ(floats(t0), (Floats{4, 4}));
  EXPECT_EQ(floats(t1), (Floats{6, 6}));
  const auto p = jit(as_pair, x);
  EXPECT_EQ(floats(p.second.at(1)), (Floats{9, 9}));
  EXPECT_EQ(floats(jit(as_array, x)[1]), (Floats{6, 6}));
  EXPECT_EQ(jit(as_vector, x).size(), 3U);
  const auto c = compile(as_struct, x);
  const Linear l = c(filled(5));
  EXPECT_EQ(floats(l.weight), (Floats{6, 6}));
  EXPECT_EQ(floats(l.bias), (Floats{10, 10}));
  EXPECT_EQ(l.repeat, 7) << "other members come back as the traced call set them";
  const auto v = compile(as_vector, x);
  EXPECT_EQ(v(x).size(), 3U);
  const Array first = v(x)[0], second = v(x)[0];
  EXPECT_NE(first.raw_data(), second.raw_data()) << "every call has outputs of its own";
}

TEST(TracedResults, nothing_returned_by_value_twice) {
  const Array x = filled(3);
  auto f = [](const Array& a) {
    const Array y = a * 2;
    return std::vector<Array>{y, y, a, a};
  };
  const auto results = jit(f, x);
  EXPECT_EQ(results[0].raw_data(), results[1].raw_data()) << "one value is one output";
  EXPECT_EQ(results[2].raw_data(), x.raw_data());
  EXPECT_EQ(results[3].raw_data(), x.raw_data());
}

TEST(TracedResults, returned_memory_is_that_memory) {
  const Array x = stiletto::ones({4, 4}), y = stiletto::zeros({4, 4});
  Array w = filled(2);
  const auto same = jit([](const Array& a) { return stiletto::slice(a, {stiletto::Slice{1, 3}}); }, x);
  EXPECT_EQ(same.raw_data(), static_cast<float*>(x.raw_data()) + 4);
  EXPECT_EQ(jit([&](const Array&) { return w; }, x).raw_data(), w.raw_data());
  auto store = [](const Array& d, const Array& a) {
    stiletto::assign(d, a * 2);
    return d;
  };
  const Array stored = jit(store, y, x);
  EXPECT_EQ(stored.raw_data(), y.raw_data());
  EXPECT_EQ(y.to_vector<float>(), Floats(16, 2));
  auto part = [](const Array& d, const Array& a) {
    stiletto::assign(d, a * 3);
    return stiletto::transpose(d);
  };
  EXPECT_EQ(jit(part, y, x).to_vector<float>(), Floats(16, 3));
}

TEST(TracedResults, views_handed_back_keep_the_argument_of_each_call) {
  const Array x = stiletto::ones({4}), other = stiletto::zeros({4});
  const auto c = compile([](const Array& a) { return stiletto::reshape(a, {2, 2}); }, x);
  EXPECT_EQ(c(other).raw_data(), other.raw_data());
  EXPECT_EQ(c(x).shape(), (stiletto::Dims{2, 2}));
}

TEST(TracedResults, numbers) {
  const Array r = jit([](const Array& s) { return s * 2; }, 4.5F);
  EXPECT_EQ(r.item<float>(), 9);
  EXPECT_EQ(jit([](const Array& a, const Array& b) { return a + b; }, 2, 3).item<int>(), 5);
}

// ---- function objects -----------------------------------------------------------------------------------

Array plain(const Array& x) { return x * 2; }
Array by_value(Array x) { return x * 2; }  // NOLINT(performance-unnecessary-value-param)
struct Const {
  Array factor;
  Array operator()(const Array& x) const { return x * factor; }
};
struct Mutable {
  int calls = 0;
  Array operator()(const Array& x) {
    ++calls;
    return x * calls;
  }
};

TEST(TracedFunctions, of_every_kind) {
  const Array x = filled(3);
  EXPECT_EQ(floats(jit(plain, x)), (Floats{6, 6}));
  EXPECT_EQ(floats(jit(&plain, x)), (Floats{6, 6}));
  EXPECT_EQ(floats(jit(by_value, x)), (Floats{6, 6}));
  EXPECT_EQ(floats(jit([](Array& a) { return a * 2; }, x)), (Floats{6, 6})) << "called with lvalues";
  EXPECT_EQ(floats(jit(std::function<Array(const Array&)>(plain), x)), (Floats{6, 6}));
  EXPECT_EQ(floats(compile(plain, x)(x)), (Floats{6, 6}));
  EXPECT_EQ(floats(compile([](const auto& a) { return a * 2; }, x)(x)), (Floats{6, 6}));
  const Const constant{filled(5)};
  EXPECT_EQ(floats(jit(constant, x)), (Floats{15, 15}));
  EXPECT_EQ(floats(compile(constant, x)(x)), (Floats{15, 15}));
  EXPECT_EQ(floats(jit(Const{filled(4)}, x)), (Floats{12, 12}));
  Mutable counter;
  jit(counter, x);
  EXPECT_EQ(floats(jit(counter, x)), (Floats{6, 6}));
  EXPECT_EQ(counter.calls, 2) << "f runs on every call, and it is f, not a copy";
  const auto c = compile(counter, x);
  c(x);
  c(x);
  EXPECT_EQ(counter.calls, 3) << "a compiled function does not run it again";
}

TEST(TracedFunctions, that_return_references) {
  const Array x = filled(3), w = filled(7);
  auto self = [](const Array& a) -> const Array& {
    return a;  // NOLINT(bugprone-return-const-ref-from-parameter)
  };
  static_assert(std::is_same_v<stiletto::result_t<decltype(self), Array>, Array>);
  EXPECT_EQ(jit(self, x).raw_data(), x.raw_data());
  EXPECT_EQ(compile(self, x)(x).raw_data(), x.raw_data());
  auto captured = [&](const Array&) -> const Array& { return w; };
  EXPECT_EQ(jit(captured, x).raw_data(), w.raw_data());
  std::vector<Array> kept;
  auto list = [&](const Array& a) -> const std::vector<Array>& {
    kept = {a * 2, a};
    return kept;
  };
  EXPECT_EQ(floats(jit(list, x)[0]), (Floats{6, 6}));
}

TEST(TracedFunctions, that_assign_to_their_parameters) {
  const Array x = filled(3);
  auto f = [](Array& a) {
    a = a * 2;
    a = a + 1;
    return a;
  };
  EXPECT_EQ(floats(jit(f, x)), (Floats{7, 7}));
  EXPECT_EQ(floats(x), (Floats{3, 3})) << "the caller's handle is not the traced one";
}

TEST(TracedFunctions, overloads_with_and_without_options) {
  const Array x = filled(3);
  const stiletto::CompileOptions options{.io_dtype = DType::float16};
  EXPECT_EQ(jit(options, plain, x).dtype(), DType::float16);
  EXPECT_EQ(jit({.io_dtype = DType::float16}, plain, x).dtype(), DType::float16);
  EXPECT_EQ(compile({.io_dtype = DType::float16}, plain, x)(x).dtype(), DType::float16);
  EXPECT_EQ(compile(plain, x)(x).dtype(), DType::float32);
}

// ---- jit and compile inside traces ----------------------------------------------------------------------

TEST(NestedTraces, jit_inlines) {
  const Array x = filled(3);
  auto inner = [](const Array& a, const Array& s) { return a * s; };
  auto outer = [&](const Array& a) {
    return jit(inner, a, 2.0F) + jit({.io_dtype = DType::float16}, inner, a, 3.0F);
  };
  const std::size_t entries = stiletto::plan_cache().entries();
  const auto c = compile(outer, x);
  EXPECT_EQ(stiletto::plan_cache().entries(), entries) << "nothing of its own";
  EXPECT_EQ(floats(c(x)), (Floats{15, 15}));
  EXPECT_EQ(c(x).dtype(), DType::float32);
  EXPECT_EQ(floats(jit(outer, x)), (Floats{15, 15}));
  auto concrete = [&](const Array& a) {
    const Array y = jit(plain, x);
    EXPECT_TRUE(y.is_traced()) << "on captured arrays too";
    return a + y;
  };
  EXPECT_EQ(floats(jit(concrete, x)), (Floats{9, 9}));
}

TEST(NestedTraces, compile_makes_a_function_of_its_own) {
  const Array x = filled(3), w = filled(5);
  stiletto::Compiled<Array(Array)> made;
  auto outer = [&](const Array& a) {
    const Array before = a * 2;
    made = compile(plain, w);
    return before + 1;
  };
  EXPECT_EQ(floats(jit(outer, x)), (Floats{7, 7}));
  EXPECT_EQ(floats(made(w)), (Floats{10, 10}));
  auto traced = [](const Array& a) { return compile(plain, a)(a); };
  EXPECT_THROW(jit(traced, x), stiletto::TraceError);
}

TEST(NestedTraces, a_compiled_function_takes_no_traced_arrays) {
  const Array x = filled(3);
  const auto c = compile(plain, x);
  EXPECT_THROW(jit([&](const Array& a) { return c(a); }, x), stiletto::TraceError);
  EXPECT_THROW(jit([&](const Array& a) { return c(a * 2); }, x), stiletto::TraceError);
  EXPECT_EQ(floats(c(x)), (Floats{6, 6}));
}

}  // namespace
