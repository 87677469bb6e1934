// SPDX-License-Identifier: Apache-2.0
// What a symbolic value cannot do, functions that throw while they are traced, hazards between stores and
// reads, and handles that hold nothing.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "support/errors.hpp"

namespace {

using namespace support;
using stiletto::ArgumentError;
using stiletto::Device;
using stiletto::TraceError;

const DType float32 = DType::float32;

TEST(SymbolicValues, cannot_be_read) {
  const Array x = stiletto::ones({1});
  auto refused = [&](auto read_it, const char* name) {
    EXPECT_TRUE(throws<TraceError>(
        [&] {
          stiletto::jit(
              [&](const Array& a) {
                read_it(a);
                return a;
              },
              x);
        },
        {name}));
    EXPECT_TRUE(throws<TraceError>(
        [&] {
          stiletto::jit(
              [&](const Array& a) {
                read_it(a * 2);
                return a;
              },
              x);
        },
        {name}));
    EXPECT_TRUE(throws<TraceError>(
        [&] {
          stiletto::compile(
              [&](const Array& a) {
                read_it(a + 1);
                return a;
              },
              x);
        },
        {name}));
  };
  refused([](const Array& a) { a.item<float>(); }, "item");
  refused([](const Array& a) { a.to_vector<float>(); }, "to_vector");
  refused([](const Array& a) { a.data<float>(); }, "data");
  refused([](const Array& a) { a.raw_data(); }, "data");
  refused([](const Array& a) { a.at<float>({0}); }, "at");
  refused([](const Array& a) { a.to(Device::cpu()); }, "to");
}

TEST(SymbolicValues, can_be_asked_and_printed) {
  const Array x = stiletto::ones({2, 3}, DType::float16);
  stiletto::jit(
      [](const Array& a) {
        EXPECT_TRUE(a.is_traced());
        EXPECT_FALSE(a.has_memory());
        EXPECT_EQ(a.dtype(), DType::float16);
        EXPECT_EQ(a.shape(), stiletto::Dims({2, 3}));
        EXPECT_EQ(a.dim(-1), 3);
        EXPECT_EQ(a.size(), 6);
        EXPECT_EQ(a.nbytes(), 12U);
        EXPECT_TRUE(a.device().is_cpu());
        EXPECT_EQ((a + 1.0F).dtype(), float32);
        std::ostringstream text;
        text << a << (a * 2);
        EXPECT_NE(text.str().find("float16"), std::string::npos);
        return a * 2;
      },
      x);
}

TEST(Tracing, memory_is_not_made_inside) {
  const Array x = stiletto::ones({2});
  static float memory[2];
  auto refused = [&](auto make, const char* name) {
    EXPECT_TRUE(
        throws<TraceError>([&] { stiletto::jit([&](const Array& a) { return a + make(); }, x); }, {name}));
  };
  refused([] { return stiletto::empty({2}); }, "empty");
  refused([] { return stiletto::from_data(std::vector<float>{1, 2}, {2}); }, "from_data");
  refused([] { return stiletto::wrap(memory, {2}, float32, Device::cpu()); }, "wrap");
}

TEST(Tracing, a_function_without_effect) {
  const Array x = stiletto::ones({2});
  EXPECT_THROW(stiletto::jit([](const Array& a) { (void)(a + 1); }, x), TraceError);
  EXPECT_THROW(stiletto::compile([](const Array&) {}, x), TraceError);
}

TEST(Tracing, results_that_hold_nothing) {
  const Array x = stiletto::ones({2});
  EXPECT_THROW(stiletto::jit([](const Array&) { return Array(); }, x), stiletto::Error);
  EXPECT_THROW(stiletto::jit([](const Array& a) { return std::vector<Array>{a + 1, Array()}; }, x),
               stiletto::Error);
  EXPECT_THROW(stiletto::jit([](const Array& a) { return a + Array(); }, x), ArgumentError);
}

TEST(Tracing, a_spec_is_not_a_capture) {
  const Array x = stiletto::ones({2}), symbol = stiletto::spec({2}, float32, {}, Device::cpu());
  EXPECT_THROW(stiletto::jit([&](const Array& a) { return a + symbol; }, x), stiletto::Error);
  EXPECT_THROW(symbol + x, stiletto::Error);
  EXPECT_THROW(stiletto::jit([](const Array& a) { return a + 1; }, symbol), stiletto::Error);
}

TEST(Tracing, a_function_that_throws_leaves_the_cache_clean) {
  const Array x = stiletto::ones({7, 3});
  struct Surprise {};
  stiletto::plan_cache().clear();
  for (int round = 0; round < 5; ++round) {
    EXPECT_THROW(stiletto::jit(
                     [](const Array& a) -> Array {
                       const Array b = stiletto::exp(a) * 2;
                       if (b.rank() == 2) throw Surprise();
                       return b;
                     },
                     x),
                 Surprise);
    EXPECT_THROW(stiletto::compile([](const Array&) -> Array { throw Surprise(); }, x), Surprise);
    EXPECT_THROW(stiletto::jit([](const Array& a) { return stiletto::matmul(a, a); }, x),
                 stiletto::ShapeError);
    EXPECT_EQ(stiletto::plan_cache().entries(), 0U);
  }
  // No trace is left open: operations run at once again, and the same function compiles.
  EXPECT_TRUE(equals(x.copy() + 1, float32, {7, 3}, std::vector<Real>(21, 2)));
  EXPECT_TRUE(equals(stiletto::jit([](const Array& a) { return a * 2; }, x), float32, {7, 3},
                     std::vector<Real>(21, 2)));
}

TEST(Tracing, a_throw_from_an_inlined_jit) {
  const Array x = stiletto::ones({2});
  auto outer = [](const Array& a) {
    Array b = a + 1;
    try {
      stiletto::jit([](const Array& c) -> Array { throw std::runtime_error(c.is_traced() ? "inner" : "no"); },
                    b);
    } catch (const std::runtime_error&) {
      return b * 2;  // recovered: the outer trace goes on
    }
    return b;
  };
  EXPECT_TRUE(equals(stiletto::jit(outer, x), float32, {2}, {4, 4}));
}

TEST(Tracing, an_error_inside_a_trace_may_be_caught_there) {
  const Array x = stiletto::ones({2, 3});
  auto f = [](const Array& a) {
    try {
      return stiletto::matmul(a, a);
    } catch (const stiletto::ShapeError&) {
      return stiletto::matmul(a, stiletto::transpose(a));
    }
  };
  EXPECT_TRUE(equals(stiletto::jit(f, x), float32, {2, 2}, {3, 3, 3, 3}));
}

TEST(Tracing, operations_are_named_with_their_position) {
  const Array x = stiletto::ones({2, 3});
  EXPECT_TRUE(throws<stiletto::ShapeError>(
      [&] { stiletto::jit([](const Array& a) { return stiletto::matmul(stiletto::exp(a) + 1, a); }, x); },
      {"operation", "matmul", "(2, 3)"}));
}

// ---- hazards ----

TEST(Hazards, reading_after_storing) {
  const Array y = stiletto::full({4}, 7), x = stiletto::ones({4});
  auto reads = [](const Array& d, const Array& v) {
    stiletto::assign(d, v * 2);
    return stiletto::exp(d);
  };
  EXPECT_TRUE(throws<TraceError>([&] { stiletto::jit(reads, y, x); }, {"exp"}));
  auto reads_view = [](const Array& d, const Array& v) {
    stiletto::assign(stiletto::slice(d, {stiletto::Slice{0, 2}}),
                     stiletto::slice(v, {stiletto::Slice{0, 2}}));
    return stiletto::tanh(d);
  };
  EXPECT_TRUE(throws<TraceError>([&] { stiletto::jit(reads_view, y, x); }, {"tanh"}));
  auto reads_in_store = [](const Array& d, const Array& v) {
    stiletto::assign(d, v);
    stiletto::assign(d, d + v);
  };
  EXPECT_TRUE(throws<TraceError>([&] { stiletto::jit(reads_in_store, y, x); }, {"add"}));
  auto product = [](const Array& d, const Array& v) {
    stiletto::assign(d, v);
    return stiletto::matmul(d, v);
  };
  EXPECT_TRUE(throws<TraceError>([&] { stiletto::jit(product, y, x); }, {"matmul"}));
  EXPECT_TRUE(equals(y, float32, {4}, {7, 7, 7, 7}));
  EXPECT_THROW(stiletto::jit(
                   [&](const Array& v) {
                     stiletto::assign(y, v);
                     return y + 1;
                   },
                   x),
               TraceError);
}

TEST(Hazards, values_computed_before_a_store_stay_usable) {
  const Array y = stiletto::full({4}, 7), x = stiletto::ones({4});
  auto f = [](const Array& d, const Array& v) {
    const Array before = d * 2;
    stiletto::assign(d, v * 3);
    return before + v;
  };
  EXPECT_TRUE(equals(stiletto::jit(f, y, x), float32, {4}, {15, 15, 15, 15}));
  EXPECT_TRUE(equals(y, float32, {4}, {3, 3, 3, 3}));
}

TEST(Hazards, stores_go_to_arguments_and_captures_only) {
  const Array x = stiletto::ones({4});
  EXPECT_TRUE(throws<TraceError>(
      [&] {
        stiletto::jit(
            [](const Array& a) {
              const Array b = a * 2;
              stiletto::assign(b, a);
              return b;
            },
            x);
      },
      {"assign"}));
  EXPECT_TRUE(throws<TraceError>([&] {
    stiletto::jit(
        [](const Array& a) {
          stiletto::assign(stiletto::zeros({4}), a);
          return a;
        },
        x);
  }));
  EXPECT_TRUE(throws<TraceError>([&] {
    stiletto::jit(
        [](const Array& a, const Array& s) {
          stiletto::assign(s, stiletto::sum(a));
          return a;
        },
        x, 2.0F);
  }));
  EXPECT_THROW(stiletto::assign(Array(2.0F), x), stiletto::Error);
}

// ---- empty handles ----

TEST(EmptyHandles, of_arrays) {
  const Array none, x = stiletto::ones({2, 2});
  auto refused = [](auto f) { EXPECT_THROW(f(), ArgumentError); };
  refused([&] { (void)none.dtype(); });
  refused([&] { (void)none.shape(); });
  refused([&] { (void)none.strides(); });
  refused([&] { (void)none.rank(); });
  refused([&] { (void)none.size(); });
  refused([&] { (void)none.device(); });
  refused([&] { none.item<float>(); });
  refused([&] { none.to_vector<float>(); });
  refused([&] { none.raw_data(); });
  refused([&] { none.copy(); });
  refused([&] { none.to(Device::cpu()); });
  refused([&] { none + x; });
  refused([&] { x* none; });
  refused([&] { stiletto::exp(none); });
  refused([&] { stiletto::where(x > 0, none, x); });
  refused([&] { stiletto::sum(none); });
  refused([&] { stiletto::matmul(x, none); });
  refused([&] { stiletto::matmul_into(none, x, x); });
  refused([&] { stiletto::assign(none, x); });
  refused([&] { stiletto::assign(x, none); });
  refused([&] { stiletto::transpose(none); });
  refused([&] { stiletto::reshape(none, {1}); });
  refused([&] { stiletto::slice(none, {}); });
  refused([&] { stiletto::cast(none, DType::int8); });
  refused([&] { stiletto::jit([](const Array& a) { return a + 1; }, none); });
  refused([&] { stiletto::compile([](const Array& a) { return a + 1; }, none); });
  std::ostringstream text;
  text << none;  // printing never throws
}

TEST(EmptyHandles, of_compiled_functions_and_graphs) {
  const Array x = stiletto::ones({2});
  const stiletto::Compiled<Array(Array)> none;
  EXPECT_THROW(none(x), ArgumentError);
  EXPECT_THROW(none.workspace(), ArgumentError);
  EXPECT_THROW(none.graph(), ArgumentError);
  EXPECT_THROW(none.bindings(x), ArgumentError);
  const stiletto::Graph graph;
  EXPECT_THROW(graph.to_string(), stiletto::Error);
  EXPECT_THROW(graph.execute(stiletto::Bindings()), stiletto::Error);
  EXPECT_THROW(stiletto::Bindings().get("arg0"), stiletto::Error);
  const auto compiled = stiletto::compile([](const Array& a) { return a + 1; }, x);
  EXPECT_THROW(compiled.graph().execute(stiletto::Bindings()), stiletto::Error);
}

TEST(BadBindings, are_refused_and_good_ones_run) {
  const Array x = stiletto::ones({2, 3});
  const auto compiled = stiletto::compile([](const Array& a, const Array& s) { return a * s; }, x, 3.0F);
  auto bound = compiled.bindings(x, 3.0F);
  compiled.graph().execute(bound.bindings);
  EXPECT_TRUE(equals(bound.outputs, float32, {2, 3}, std::vector<Real>(6, 3)));
  EXPECT_EQ(bound.bindings.get("arg0").raw_data(), x.raw_data());
  EXPECT_EQ(bound.bindings.get("out0").raw_data(), bound.outputs.raw_data());
  EXPECT_THROW(bound.bindings.get("arg7"), ArgumentError);
  EXPECT_THROW(bound.bindings.set("arg7", x), ArgumentError);
  EXPECT_THROW(bound.bindings.set("arg0", stiletto::ones({3, 2})), ArgumentError);
  EXPECT_THROW(bound.bindings.set("arg0", stiletto::ones({2, 3}, DType::float64)), ArgumentError);
  EXPECT_THROW(bound.bindings.set("arg0", stiletto::transpose(stiletto::ones({3, 2}))), ArgumentError);
  EXPECT_THROW(bound.bindings.set("arg0", Array()), ArgumentError);
  const Array other = stiletto::full({2, 3}, 5);
  bound.bindings.set("arg0", other);
  compiled.graph().execute(bound.bindings);
  EXPECT_TRUE(equals(bound.outputs, float32, {2, 3}, std::vector<Real>(6, 15)));
  const auto another = stiletto::compile([](const Array& a) { return a + 1; }, x);
  EXPECT_THROW(another.graph().execute(bound.bindings), ArgumentError);
}

}  // namespace
