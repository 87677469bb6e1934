// SPDX-License-Identifier: Apache-2.0
// jit's cache: what is in the key and what is not, hits and misses, least recently used entries that go,
// bytes, and traces that throw or are refused, which leave it as it was.
#include "compiler/plan_cache.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stiletto/stiletto.hpp"
#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Array;
using stiletto::CompileOptions;
using stiletto::Device;
using stiletto::DType;
using stiletto::jit;
using stiletto::plan_cache;
using stiletto::Slice;

/// The plan cache is the process's: every test begins with an empty one of the usual size.
class PlanCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    plan_cache().set_capacity(1024);
    plan_cache().clear();
  }
  void TearDown() override { SetUp(); }

  /// Whether the call compiled (one miss, no hit) or found its plan (one hit, no miss).
  template <class F>
  bool compiles(F call) {
    const std::size_t hits = plan_cache().hits(), misses = plan_cache().misses();
    call();
    const std::size_t new_hits = plan_cache().hits() - hits, new_misses = plan_cache().misses() - misses;
    EXPECT_EQ(new_hits + new_misses, 1U);
    return new_misses == 1;
  }
};

Array twice(const Array& x) { return x * 2; }

TEST_F(PlanCacheTest, compiles_once) {
  const Array x = stiletto::ones({3, 4}), y = stiletto::zeros({3, 4});
  plan_cache().clear();
  EXPECT_TRUE(compiles([&] { jit(twice, x); }));
  EXPECT_EQ(plan_cache().entries(), 1U);
  EXPECT_GT(plan_cache().bytes(), 0U);
  EXPECT_FALSE(compiles([&] { jit(twice, x); }));
  EXPECT_FALSE(compiles([&] { jit(twice, y); })) << "contents are not in the key";
  EXPECT_EQ(plan_cache().entries(), 1U);
}

TEST_F(PlanCacheTest, the_trace_is_the_key_not_the_function) {
  const Array x = stiletto::ones({5});
  EXPECT_TRUE(compiles([&] { jit(twice, x); }));
  EXPECT_FALSE(compiles([&] { jit([](const Array& a) { return a * 2; }, x); }))
      << "another function, one trace";
  auto make = [](bool flag) {
    return [flag](const Array& a) { return flag ? stiletto::exp(a) : stiletto::tanh(a); };
  };
  EXPECT_TRUE(compiles([&] { jit(make(true), x); }));
  EXPECT_TRUE(compiles([&] { jit(make(false), x); })) << "one type, another captured flag";
  EXPECT_FALSE(compiles([&] { jit(make(true), x); }));
}

// ---- what is in the key ---------------------------------------------------------------------------------

TEST_F(PlanCacheTest, shape_dtype_and_strides) {
  const Array x = stiletto::ones({4, 4}), turned = stiletto::transpose(x);
  EXPECT_TRUE(compiles([&] { jit(twice, x); }));
  const Array wide = stiletto::ones({2, 8}), half = stiletto::ones({4, 4}, DType::float16),
              part = stiletto::slice(stiletto::ones({4, 8}), {Slice{}, Slice{0, 4}}),
              back = stiletto::slice(x, {Slice{{}, {}, -1}});
  for (const Array& other : {wide, half, turned, part, back}) {
    EXPECT_TRUE(compiles([&] { jit(twice, other); }));
    EXPECT_FALSE(compiles([&] { jit(twice, other); }));
  }
}

TEST_F(PlanCacheTest, strides_of_extents_1_are_not) {
  float memory[64] = {};
  auto row = [&](std::int64_t stride) {
    return stiletto::wrap(memory, {1, 4}, DType::float32, Device::cpu(), {stride, 1});
  };
  const Array a = row(4), b = row(17);
  EXPECT_TRUE(compiles([&] { jit(twice, a); }));
  EXPECT_FALSE(compiles([&] { jit(twice, b); }));
}

TEST_F(PlanCacheTest, alignment_up_to_16_bytes) {
  alignas(64) static float memory[64];
  auto at = [&](int offset) { return stiletto::wrap(memory + offset, {8}, DType::float32, Device::cpu()); };
  const Array a = at(0), b = at(1), c = at(2), d = at(4), e = at(3), f = at(8);
  EXPECT_TRUE(compiles([&] { jit(twice, a); }));
  EXPECT_TRUE(compiles([&] { jit(twice, b); })) << "4 bytes";
  EXPECT_TRUE(compiles([&] { jit(twice, c); })) << "8 bytes";
  EXPECT_FALSE(compiles([&] { jit(twice, d); })) << "16 and 64 bytes are alike";
  EXPECT_FALSE(compiles([&] { jit(twice, e); })) << "12 is as well aligned as 4";
  EXPECT_FALSE(compiles([&] { jit(twice, f); }));
}

TEST_F(PlanCacheTest, attributes_by_their_bits) {
  const Array x = stiletto::ones({4, 4});
  auto leaky = [&](double slope) { jit([&](const Array& a) { return stiletto::leaky_relu(a, slope); }, x); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(compiles([&] { leaky(0.1); }));
  EXPECT_TRUE(compiles([&] { leaky(0.2); }));
  EXPECT_FALSE(compiles([&] { leaky(0.1); }));
  EXPECT_TRUE(compiles([&] { leaky(nan); }));
  EXPECT_FALSE(compiles([&] { leaky(nan); })) << "NaN finds its plan again";
  EXPECT_TRUE(compiles([&] { leaky(0.0); }));
  EXPECT_TRUE(compiles([&] { leaky(-0.0); })) << "0 and -0 differ";
  auto total = [&](int axis, bool keep) {
    jit([&](const Array& a) { return stiletto::sum(a, axis, keep); }, x);
  };
  EXPECT_TRUE(compiles([&] { total(0, false); }));
  EXPECT_TRUE(compiles([&] { total(1, false); }));
  EXPECT_TRUE(compiles([&] { total(0, true); }));
  EXPECT_FALSE(compiles([&] { total(-2, false); })) << "axis -2 is axis 0";
  const Array c = stiletto::zeros({4, 4});
  auto product = [&](double alpha, double beta) {
    jit([&](const Array& y, const Array& a) { stiletto::matmul_into(y, a, a, alpha, beta); }, c, x);
  };
  EXPECT_TRUE(compiles([&] { product(1, 0); }));
  EXPECT_TRUE(compiles([&] { product(2, 0); }));
  EXPECT_TRUE(compiles([&] { product(1, 1); }));
  EXPECT_FALSE(compiles([&] { product(2, 0); }));
}

TEST_F(PlanCacheTest, options_but_not_the_allocator) {
  const Array x = stiletto::ones({4});
  auto run = [&](const CompileOptions& options) { jit(options, twice, x); };
  EXPECT_TRUE(compiles([&] { run({}); }));
  EXPECT_TRUE(compiles([&] { run({.io_dtype = DType::float16}); }));
  EXPECT_TRUE(compiles([&] { run({.io_dtype = DType::bfloat16}); }));
  EXPECT_TRUE(compiles([&] { run({.intermediate_dtype = DType::float16}); }));
  EXPECT_TRUE(compiles([&] { run({.compute_dtype = DType::float64}); }));
  EXPECT_TRUE(compiles([&] { run({.max_workspace = std::size_t{1} << 30}); }));
  EXPECT_TRUE(compiles([&] { run({.max_workspace = std::size_t{1} << 31}); }));
  EXPECT_TRUE(compiles([&] { run({.deterministic = true}); }));
  EXPECT_EQ(plan_cache().entries(), 8U);
  int calls = 0;
  const CompileOptions counted{.allocator = [&](Device device, const stiletto::Shape& shape, DType dtype) {
    ++calls;
    return stiletto::empty(shape, dtype, device);
  }};
  EXPECT_FALSE(compiles([&] { run(counted); }));
  EXPECT_EQ(calls, 1) << "found in the cache, yet its own allocator is used";
  EXPECT_FALSE(compiles([&] { run({}); }));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(compiles([&] { run({.io_dtype = DType::float16}); }));
}

TEST_F(PlanCacheTest, captures_by_identity) {
  const Array x = stiletto::ones({4}), w = stiletto::full({4}, 3), equal = stiletto::full({4}, 3),
              both = stiletto::full({8}, 5), low = stiletto::slice(both, {Slice{0, 4}}),
              high = stiletto::slice(both, {Slice{4, 8}});
  auto scale = [&](const Array& by) { return jit([&](const Array& a) { return a * by; }, x); };
  EXPECT_TRUE(compiles([&] { scale(w); }));
  EXPECT_FALSE(compiles([&] { scale(w); }));
  EXPECT_TRUE(compiles([&] { scale(equal); })) << "equal contents, other memory";
  EXPECT_TRUE(compiles([&] { scale(low); }));
  EXPECT_TRUE(compiles([&] { scale(high); })) << "the same storage, another offset";
  const Array again = stiletto::slice(both, {Slice{0, 4}});
  EXPECT_FALSE(compiles([&] { scale(again); })) << "the same view, made again";
  stiletto::assign(w, 7);
  EXPECT_EQ(scale(w).to_vector<float>(), std::vector<float>(4, 7)) << "contents are read at each execution";
}

TEST_F(PlanCacheTest, a_cached_plan_keeps_its_captures_alive) {
  const Array x = stiletto::ones({4});
  std::weak_ptr<void> alive;
  {
    auto owner = std::make_shared<std::vector<float>>(4, 2.0F);
    alive = owner;
    const Array w = stiletto::wrap(owner->data(), {4}, DType::float32, Device::cpu(), {}, owner);
    jit([&](const Array& a) { return a * w; }, x);
  }
  EXPECT_FALSE(alive.expired()) << "so that no other array can take its address";
  plan_cache().clear();
  EXPECT_TRUE(alive.expired());
}

TEST_F(PlanCacheTest, values_of_numbers_are_not) {
  const Array x = stiletto::ones({4});
  const double infinity = std::numeric_limits<double>::infinity();
  auto scale = [&](auto by) {
    return jit([&](const Array& a) { return a * by; }, x).template to_vector<float>()[0];
  };
  auto pass = [&](auto by) {
    return jit([](const Array& a, const Array& s) { return a * s; }, x, by).template to_vector<float>()[0];
  };
  EXPECT_TRUE(compiles([&] { EXPECT_EQ(scale(2.0), 2); }));
  EXPECT_FALSE(compiles([&] { EXPECT_EQ(scale(3.5), 3.5F); }));
  EXPECT_TRUE(compiles([&] { EXPECT_EQ(scale(4), 4); })) << "an int is another type of number";
  EXPECT_FALSE(compiles([&] { EXPECT_EQ(scale(-5), -5); }));
  EXPECT_TRUE(compiles([&] { EXPECT_EQ(pass(2.0F), 2); }));
  EXPECT_FALSE(compiles([&] { EXPECT_EQ(pass(3.0F), 3); }));
  EXPECT_FALSE(compiles([&] { EXPECT_EQ(pass(3.5), 3.5F); })) << "float and double are one type of number";
  EXPECT_TRUE(compiles([&] { EXPECT_EQ(pass(stiletto::half(2)), 2); }));
  EXPECT_FALSE(compiles([&] { EXPECT_EQ(scale(infinity), static_cast<float>(infinity)); }));
  auto arithmetic = [&](double s) {
    return jit([&](const Array& a) { return a * (Array(s) + 1) * 2; }, x).to_vector<float>()[0];
  };
  EXPECT_TRUE(compiles([&] { EXPECT_EQ(arithmetic(1), 4); }));
  EXPECT_FALSE(compiles([&] { EXPECT_EQ(arithmetic(2), 6); })) << "arithmetic on numbers is the host's";
}

TEST_F(PlanCacheTest, how_arguments_are_grouped) {
  const Array x = stiletto::ones({4}), y = stiletto::ones({4});
  auto flat = [&] { jit([](const Array& a, const Array& b) { return a + b; }, x, y); };
  auto pair = [&] {
    jit([](const std::pair<Array, Array>& p) { return p.first + p.second; }, std::pair<Array, Array>(x, y));
  };
  EXPECT_TRUE(compiles(flat));
  EXPECT_TRUE(compiles(pair)) << "errors name other arguments";
  EXPECT_FALSE(compiles(flat));
  EXPECT_FALSE(compiles(pair));
}

TEST_F(PlanCacheTest, stores_and_results) {
  const Array x = stiletto::ones({4}), y = stiletto::zeros({4});
  EXPECT_TRUE(
      compiles([&] { jit([](const Array& d, const Array& a) { stiletto::assign(d, a * 2); }, y, x); }));
  EXPECT_TRUE(compiles([&] { jit([](const Array&, const Array& a) { return a * 2; }, y, x); }));
  EXPECT_TRUE(compiles([&] {
    jit(
        [](const Array& d, const Array& a) {
          const Array twice_a = a * 2;
          stiletto::assign(d, twice_a);
          return twice_a;
        },
        y, x);
  }));
  EXPECT_TRUE(compiles([&] { jit([](const Array& a) { return std::vector<Array>{a * 2, a}; }, x); }));
  EXPECT_TRUE(compiles([&] { jit([](const Array& a) { return std::vector<Array>{a, a * 2}; }, x); }));
}

TEST_F(PlanCacheTest, operations_outside_a_trace_are_cached_too) {
  const Array x = stiletto::ones({4});
  EXPECT_TRUE(compiles([&] { stiletto::exp(x); }));
  EXPECT_FALSE(compiles([&] { stiletto::exp(x); }));
  EXPECT_TRUE(compiles([&] { x + x; }));
}

TEST_F(PlanCacheTest, compile_leaves_it_alone) {
  const Array x = stiletto::ones({4});
  const std::size_t hits = plan_cache().hits(), misses = plan_cache().misses(),
                    entries = plan_cache().entries();
  const auto f = stiletto::compile(twice, x);
  f(x);
  EXPECT_EQ(plan_cache().hits(), hits);
  EXPECT_EQ(plan_cache().misses(), misses);
  EXPECT_EQ(plan_cache().entries(), entries);
}

// ---- bounds ---------------------------------------------------------------------------------------------

TEST_F(PlanCacheTest, the_least_recently_used_goes) {
  const Array a = stiletto::ones({1}), b = stiletto::ones({2}), c = stiletto::ones({3}),
              d = stiletto::ones({4});
  plan_cache().clear();
  plan_cache().set_capacity(3);
  for (const Array& x : {a, b, c}) EXPECT_TRUE(compiles([&] { jit(twice, x); }));
  EXPECT_FALSE(compiles([&] { jit(twice, a); })) << "now b is the oldest";
  EXPECT_TRUE(compiles([&] { jit(twice, d); }));
  EXPECT_EQ(plan_cache().entries(), 3U);
  EXPECT_FALSE(compiles([&] { jit(twice, a); }));
  EXPECT_FALSE(compiles([&] { jit(twice, c); }));
  EXPECT_FALSE(compiles([&] { jit(twice, d); }));
  EXPECT_TRUE(compiles([&] { jit(twice, b); })) << "b had gone";
}

TEST_F(PlanCacheTest, a_smaller_capacity_evicts_at_once) {
  std::vector<Array> arrays;
  for (std::int64_t n = 1; n <= 6; ++n) arrays.push_back(stiletto::ones({n}));
  plan_cache().clear();
  std::vector<std::size_t> bytes{0};
  for (const Array& x : arrays) {
    jit(twice, x);
    bytes.push_back(plan_cache().bytes());
    EXPECT_GT(bytes.back(), bytes[bytes.size() - 2]);
  }
  plan_cache().set_capacity(2);
  EXPECT_EQ(plan_cache().entries(), 2U);
  EXPECT_EQ(plan_cache().bytes(), bytes[6] - bytes[4]);
  EXPECT_FALSE(compiles([&] { jit(twice, arrays[5]); }));
  EXPECT_FALSE(compiles([&] { jit(twice, arrays[4]); }));
  EXPECT_TRUE(compiles([&] { jit(twice, arrays[3]); }));
  plan_cache().set_capacity(0);
  EXPECT_EQ(plan_cache().entries(), 0U);
  EXPECT_EQ(plan_cache().bytes(), 0U);
  EXPECT_EQ(jit(twice, arrays[2]).to_vector<float>(), std::vector<float>(3, 2))
      << "without a cache it still runs";
  EXPECT_EQ(plan_cache().entries(), 0U);
}

TEST_F(PlanCacheTest, clear) {
  const Array x = stiletto::ones({4});
  jit(twice, x);
  const std::size_t hits = plan_cache().hits();
  plan_cache().clear();
  EXPECT_EQ(plan_cache().entries(), 0U);
  EXPECT_EQ(plan_cache().bytes(), 0U);
  EXPECT_GE(plan_cache().hits(), hits) << "statistics count on";
  EXPECT_TRUE(compiles([&] { jit(twice, x); }));
  EXPECT_FALSE(compiles([&] { jit(twice, x); }));
}

// ---- what throws ----------------------------------------------------------------------------------------

TEST_F(PlanCacheTest, a_function_that_throws_leaves_nothing) {
  const Array x = stiletto::ones({4});
  plan_cache().clear();
  struct Surprise {};
  int calls = 0;
  auto f = [&](const Array& a) -> Array {
    ++calls;
    if (calls < 3) throw Surprise();
    return a * 2;
  };
  EXPECT_THROW(jit(f, x), Surprise);
  EXPECT_THROW(jit(f, x), Surprise);
  EXPECT_EQ(plan_cache().entries(), 0U);
  EXPECT_FALSE(stiletto::detail::tracing());
  EXPECT_EQ(jit(f, x).to_vector<float>(), std::vector<float>(4, 2)) << "the next call starts afresh";
  EXPECT_EQ(plan_cache().entries(), 1U);
  EXPECT_THROW(jit([](const Array& a) { return stiletto::reshape(a, {3}); }, x), stiletto::ShapeError);
  EXPECT_THROW(jit([](const Array&) {}, x), stiletto::TraceError);
  EXPECT_EQ(plan_cache().entries(), 1U);
}

TEST_F(PlanCacheTest, a_refused_plan_is_refused_again_with_the_same_text) {
  const Array x = stiletto::ones({64, 64});
  plan_cache().clear();
  auto refused = [&] {
    return unit::error_of(
        [&] { jit({.compute_dtype = DType::float16}, [](const Array& a) { return a * 2; }, x); });
  };
  std::string text;
  EXPECT_TRUE(compiles([&] { text = refused(); }));
  EXPECT_EQ(text.rfind("UnsupportedGraphError: ", 0), 0U) << text;
  EXPECT_EQ(plan_cache().entries(), 1U);
  EXPECT_GT(plan_cache().bytes(), text.size());
  EXPECT_FALSE(compiles([&] { EXPECT_EQ(refused(), text); })) << "it is remembered";
  EXPECT_TRUE(compiles([&] { jit(twice, x); })) << "under these options";
  plan_cache().clear();
  EXPECT_EQ(plan_cache().bytes(), 0U);
  EXPECT_TRUE(compiles([&] { EXPECT_EQ(refused(), text); }));
}

TEST_F(PlanCacheTest, a_remembered_refusal_has_all_its_facts) {
  const Array x = stiletto::ones({64, 64});
  plan_cache().clear();
  for (int call = 0; call < 2; ++call) {
    try {
      jit({.max_workspace = 0}, [](const Array& a) { return stiletto::softmax(a); }, x);
      FAIL() << "it has a plan";
    } catch (const stiletto::UnsupportedGraphError& error) {
      EXPECT_EQ(error.excluded_by, "max_workspace");
      EXPECT_EQ(error.reasons.size(), 1U);
      EXPECT_NE(error.graph.find("softmax"), std::string::npos) << error.graph;
      EXPECT_EQ(error.hint.rfind("allow max_workspace of ", 0), 0U) << error.hint;
    }
  }
}

TEST_F(PlanCacheTest, refusals_leave_as_plans_do) {
  plan_cache().clear();
  plan_cache().set_capacity(2);
  auto refused = [&](std::int64_t n) {
    const Array x = stiletto::ones({n});
    EXPECT_THROW(jit({.compute_dtype = DType::float16}, twice, x), stiletto::UnsupportedGraphError);
  };
  for (std::int64_t n = 1; n <= 5; ++n) EXPECT_TRUE(compiles([&] { refused(n); }));
  EXPECT_EQ(plan_cache().entries(), 2U);
  EXPECT_FALSE(compiles([&] { refused(5); }));
  EXPECT_FALSE(compiles([&] { refused(4); }));
  EXPECT_TRUE(compiles([&] { refused(1); }));
  plan_cache().set_capacity(0);
  EXPECT_EQ(plan_cache().bytes(), 0U);
  EXPECT_TRUE(compiles([&] { refused(1); })) << "without a cache it is refused all the same";
}

TEST_F(PlanCacheTest, a_call_that_is_refused_keeps_its_plan) {
  const Array x = stiletto::ones({4, 4}), y = stiletto::zeros({4, 4});
  auto store = [](const Array& d, const Array& a) { stiletto::assign(d, stiletto::transpose(a)); };
  jit(store, y, x);
  const std::size_t entries = plan_cache().entries();
  EXPECT_THROW(jit(store, x, x), stiletto::AliasError);
  EXPECT_EQ(plan_cache().entries(), entries);
  EXPECT_FALSE(compiles([&] { jit(store, y, x); }));
}

// ---- threads and the hash -------------------------------------------------------------------------------

TEST_F(PlanCacheTest, threads_share_it) {
  std::vector<Array> arrays;
  for (std::int64_t n = 1; n <= 8; ++n) arrays.push_back(stiletto::ones({n}));
  plan_cache().clear();
  const std::size_t before = plan_cache().hits() + plan_cache().misses();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const Array& x = arrays[(i * 3 + static_cast<std::size_t>(t)) % arrays.size()];
        if (jit(twice, x).to_vector<float>() != std::vector<float>(static_cast<std::size_t>(x.size()), 2))
          ADD_FAILURE();
        if (i == 100 && t == 0) plan_cache().clear();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plan_cache().entries(), 8U);
  EXPECT_EQ(plan_cache().hits() + plan_cache().misses() - before, 800U);
}

TEST_F(PlanCacheTest, equal_traces_hash_alike_and_others_rarely) {
  auto hash = [](std::int64_t n, DType dtype, auto f) {
    unit::Recording r;
    r.trace.add_result(f(r.argument({n}, dtype)));
    r.trace.end();
    return stiletto::detail::hash_of(r.trace, {});
  };
  std::vector<std::uint64_t> hashes;
  for (std::int64_t n = 1; n < 50; ++n)
    for (DType dtype : {DType::float16, DType::float32, DType::float64}) {
      hashes.push_back(hash(n, dtype, [](const Array& x) { return stiletto::exp(x); }));
      hashes.push_back(hash(n, dtype, [](const Array& x) { return stiletto::tanh(x); }));
      hashes.push_back(hash(n, dtype, [](const Array& x) { return x + x; }));
      EXPECT_EQ(hash(n, dtype, twice), hash(n, dtype, [](const Array& x) { return x * 5; }));
    }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

}  // namespace
