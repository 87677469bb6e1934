// SPDX-License-Identifier: Apache-2.0
// The diagnosis of a refused graph, by backends made up here: what is asked, what is found, and when the time
// is up. Real answers of cuDNN's are in tests/plans/diagnosis_test.cpp.
#ifdef STILETTO_HAS_CUDNN
#include "backends/cudnn/diagnosis.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cudnn/explanation.hpp"
#include "backends/cudnn/graph_variants.hpp"
#include "unit/trace_support.hpp"

namespace {

namespace detail = stiletto::detail;
using detail::CanonicalGraph;
using detail::Op;
using detail::Tensor;
using detail::cudnn::diagnose;
using detail::cudnn::Diagnosis;
using detail::cudnn::Questions;
using unit::Array;
using unit::count;
using unit::DType;
using unit::on_cpu;
using namespace std::chrono_literals;

constexpr DType f16 = DType::float16, f32 = DType::float32, f64 = DType::float64;

using Rule = std::function<bool(const CanonicalGraph&)>;

std::chrono::steady_clock::time_point later() { return std::chrono::steady_clock::now() + 1h; }

/// What is found where `rule` decides at once.
Diagnosis found(const CanonicalGraph& graph, const Rule& rule) {
  EXPECT_FALSE(rule(graph)) << "it is not refused\n" << graph.to_string();
  return diagnose(graph, {rule, rule}, later());
}

bool every_tensor(const CanonicalGraph& graph, const std::function<bool(const Tensor&)>& holds) {
  return std::all_of(graph.tensors.begin(), graph.tensors.end(), holds) &&
         std::all_of(graph.stores.begin(), graph.stores.end(),
                     [&](const detail::Store& store) { return holds(store.tensor); });
}

const Rule nothing = [](const CanonicalGraph&) { return false; };

Rule lacks(Op op) {
  return [op](const CanonicalGraph& graph) { return count(graph, op) == 0; };
}

/// Every tensor's innermost axis is the graph's last one.
bool rows_only(const CanonicalGraph& graph) {
  return every_tensor(graph, [&](const Tensor& tensor) { return tensor.strides.back() == 1; });
}

Array sum_of(const Array& a, const Array& b) { return a + b; }
Array product(const Array& a, const Array& b) { return stiletto::matmul(a, b); }

// ---- one change -----------------------------------------------------------------------------------------

TEST(Diagnosis, a_transposed_operand) {
  const auto graph = unit::lower(sum_of, on_cpu({4, 8}), on_cpu({4, 8}, f32, {1, 4})).graph;
  const Diagnosis d = found(graph, rows_only);
  EXPECT_EQ(d.variant,
            "with arg1 of strides (8, 1) over i,j instead of (1, 4) it has a plan: pass a copy made outside "
            "the function that lies in memory like that");
  EXPECT_EQ(d.part, "") << "it is one operation";
  EXPECT_FALSE(d.stopped);
}

TEST(Diagnosis, operands_with_gaps) {
  const auto graph = unit::lower(sum_of, on_cpu({4, 8}, f32, {32, 2}), on_cpu({4, 8}, f32, {16, -1})).graph;
  const Diagnosis d = found(graph, [](const CanonicalGraph& g) { return g.extents.size() == 1; });
  EXPECT_EQ(d.variant,
            "with arg0 of strides (8, 1) over i,j instead of (32, 2) and arg1 of strides (8, 1) over i,j "
            "instead of "
            "(16, -1) it has a plan: pass a copy of that view made outside the function");
}

TEST(Diagnosis, a_destination) {
  auto store = [](const Array& y, const Array& x) { stiletto::assign(y, stiletto::exp(x)); };
  const auto graph = unit::lower(store, on_cpu({4, 8}, f32, {20, 2}), on_cpu({4, 8})).graph;
  EXPECT_EQ(
      found(graph, rows_only).variant,
      "with arg0 of strides (8, 1) over i,j instead of (20, 2) it has a plan: store to such an array, and "
      "copy from there");
}

TEST(Diagnosis, a_result_in_another_order) {
  auto both = [](const Array& x) {
    return std::vector<Array>{stiletto::exp(x), stiletto::transpose(stiletto::tanh(x))};
  };
  const auto graph = unit::lower(both, on_cpu({4, 8})).graph;
  EXPECT_EQ(found(graph, rows_only).variant,
            "with out1 of strides (8, 1) over i,j instead of (1, 4) it has a plan: return it in that order");
}

TEST(Diagnosis, alignment) {
  alignas(16) static float memory[64];
  const Array odd = stiletto::wrap(memory + 1, {8}, f32, stiletto::Device::cpu());
  unit::Recording r;
  r.trace.add_result(stiletto::exp(r.like(odd)));
  r.trace.end();
  const auto graph = detail::canonicalize(r.trace, {}).graph;
  const Diagnosis d = found(graph, [](const CanonicalGraph& g) {
    return every_tensor(g, [](const Tensor& tensor) { return tensor.alignment >= 16; });
  });
  EXPECT_EQ(d.variant,
            "with arg0 at a multiple of 16 bytes in memory it has a plan: pass a copy of that view made "
            "outside the function");
}

/// Of these axes no other extents are taken.
Rule multiples(std::int64_t of, const std::vector<std::size_t>& axes) {
  return [=](const CanonicalGraph& graph) {
    return std::all_of(axes.begin(), axes.end(),
                       [&](std::size_t axis) { return graph.extents[axis] % of == 0; });
  };
}

TEST(Diagnosis, extents) {
  const auto graph = unit::lower(product, on_cpu({60, 100}), on_cpu({100, 36})).graph;
  EXPECT_EQ(
      found(graph, multiples(8, {0, 1})).variant,
      "with i=64 instead of 60 and j=40 instead of 36, multiples of 8, it has a plan: pad arg0 and arg1");
  EXPECT_EQ(found(graph, multiples(16, {2})).variant,
            "with k=112 instead of 100, a multiple of 16, it has a plan: pad arg0 and arg1");
  EXPECT_EQ(found(graph, multiples(128, {0})).variant, "") << "not looked for";
}

// Where memory is packed it stays so, and gaps stay.
TEST(Diagnosis, extended_memory) {
  auto graph = unit::lower(product, on_cpu({4, 5}, f32, {8, 1}), on_cpu({5, 3})).graph;  // i=4 j=3 k=5
  detail::cudnn::extend(graph, 2, 8);
  EXPECT_EQ(graph.extents, (std::vector<std::int64_t>{4, 3, 8}));
  EXPECT_EQ(graph.tensors[0].strides, (std::vector<std::int64_t>{8, 0, 1})) << "there was room";
  EXPECT_EQ(graph.tensors[1].strides, (std::vector<std::int64_t>{0, 1, 3})) << "the outer axis";
  detail::cudnn::extend(graph, 1, 4);
  EXPECT_EQ(graph.tensors[1].strides, (std::vector<std::int64_t>{0, 1, 4}));
  EXPECT_EQ(graph.stores[0].tensor.strides, (std::vector<std::int64_t>{4, 1, 0}));
}

TEST(Diagnosis, dtypes) {
  auto no_float64 = [](const CanonicalGraph& g) {
    return std::none_of(g.values.begin(), g.values.end(), [](const auto& v) { return v.dtype == f64; }) &&
           every_tensor(g, [](const Tensor& t) { return t.dtype != f64; });
  };
  auto f = [](const Array& a, const Array& b) { return stiletto::exp(a) * b * 2.0; };
  const auto graph = unit::lower(f, on_cpu({4, 8}, f64), on_cpu({4, 8})).graph;
  EXPECT_EQ(found(graph, no_float64).variant, "with arg0 as float32 instead of float64 it has a plan");
}

/// What the compiler itself makes of the function over the other dtype.
template <class F>
void expect_retyped(F f, DType from, DType to) {
  const auto before = unit::lower(f, on_cpu({4, 8}, from), on_cpu({8, 8}, from)).graph;
  const auto variant = detail::cudnn::retyped(before, from, to);
  ASSERT_TRUE(variant.has_value());
  EXPECT_EQ(variant->to_string(), unit::canonical(f, on_cpu({4, 8}, to), on_cpu({8, 8}, to)));
}

TEST(Diagnosis, retyped_graphs_are_those_of_a_trace) {
  auto layer = [](const Array& x, const Array& w) {
    const Array y = stiletto::relu(stiletto::matmul(x, w));
    return std::vector<Array>{stiletto::sum(y, 1), stiletto::where(y > 0, y, stiletto::exp(y)),
                              stiletto::max(stiletto::abs(x), 0)};
  };
  auto chained = [](const Array& x, const Array& w) {
    return stiletto::matmul(w, stiletto::gelu(stiletto::matmul(w, stiletto::transpose(x))));
  };
  expect_retyped(layer, f64, f32);
  expect_retyped(layer, f32, f16);
  expect_retyped(layer, DType::int32, f32);
  expect_retyped(layer, DType::int8, f16);
  expect_retyped(chained, f32, DType::bfloat16);
  expect_retyped(chained, f64, f32);
  const auto eighths = unit::lower([](const Array& a, const Array& b) { return stiletto::cast(a, f32) + b; },
                                   on_cpu({4}, DType::float8_e4m3), on_cpu({4}))
                           .graph;
  EXPECT_TRUE(detail::cudnn::retyped(eighths, DType::float8_e4m3, f32).has_value()) << "the cast goes";
  EXPECT_FALSE(detail::cudnn::retyped(eighths, f32, DType::float8_e4m3).has_value()) << "it is not added";
}

// ---- parts and cuts -------------------------------------------------------------------------------------

Array layer(const Array& x, const Array& w) {
  return stiletto::relu(stiletto::softmax(stiletto::matmul(x, w)) * 2.0F);
}

TEST(Diagnosis, one_operation_is_refused) {
  const auto graph = unit::lower(layer, on_cpu({4, 8}, f16), on_cpu({8, 5}, f16)).graph;
  const Diagnosis d = found(graph, lacks(Op::softmax));
  EXPECT_EQ(d.part, "softmax(%2, over j) (operation 3), where %2 is float16[i=4,j=5]");
  EXPECT_EQ(
      d.variant,
      "before and behind softmax (operation 3) it has plans: compute that between two functions, on the CPU");
}

TEST(Diagnosis, the_last_operation_is_refused) {
  auto f = [](const Array& x, const Array& w) { return stiletto::max(stiletto::matmul(x, w), 1); };
  const auto graph = unit::lower(f, on_cpu({4, 8}), on_cpu({8, 5})).graph;
  const Diagnosis d = found(graph, lacks(Op::max));
  EXPECT_EQ(d.part, "max(%2, over k) (operation 3), where %2 is float32[i=4,k=5]");
  EXPECT_EQ(d.variant,
            "without max (operation 3) it has a plan: return what that reads, and compute it on the CPU");
}

TEST(Diagnosis, the_first_operation_is_refused) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(stiletto::softmax(x), w); };
  const auto graph = unit::lower(f, on_cpu({4, 8}), on_cpu({8, 5})).graph;
  EXPECT_EQ(
      found(graph, lacks(Op::softmax)).variant,
      "with the result of softmax (operation 2) as an argument it has a plan: compute that before the call, "
      "on the CPU");
}

TEST(Diagnosis, operations_that_are_refused_together) {
  auto f = [](const Array& x, const Array& w) {
    return stiletto::exp(stiletto::matmul(stiletto::tanh(stiletto::matmul(stiletto::abs(x), w)), w));
  };
  const auto graph = unit::lower(f, on_cpu({8, 8}, f16), on_cpu({8, 8}, f16)).graph;
  const Diagnosis d = found(graph, [](const CanonicalGraph& g) { return count(g, Op::matmul) < 2; });
  EXPECT_EQ(d.part,
            "matmul(tanh(matmul(%3, arg1, over k)), arg1, over l) (operations 3, 4 and 5), where %3 is "
            "float16[i=8,k=8], arg1 is float16[k=8,l=8] and arg1 is float16[j=8,l=8]");
  EXPECT_EQ(
      d.variant,
      "as two functions it has plans: return the result of tanh (operation 4) from the first and pass it to "
      "the second");
}

TEST(Diagnosis, results_that_are_refused_beside_each_other) {
  auto f = [](const Array& x) { return std::vector<Array>{stiletto::sum(x, 0), stiletto::sum(x, 1)}; };
  const auto graph = unit::lower(f, on_cpu({4, 8})).graph;
  const Diagnosis d = found(graph, [](const CanonicalGraph& g) { return count(g, Op::sum) < 2; });
  EXPECT_EQ(d.part,
            "sum(arg0, over j) and sum(arg0, over i) (operations 1 and 2), where arg0 is float32[i=8,j=4]");
  EXPECT_EQ(d.variant, "as two functions it has plans: compute sum (operation 2) in one of its own");
}

// Both operands of the last operation are computed, so no single value is where it could be cut in two.
TEST(Diagnosis, a_second_function_for_two_results) {
  auto f = [](const Array& x) { return stiletto::tanh(x) / stiletto::exp(x); };
  const auto graph = unit::lower(f, on_cpu({8})).graph;
  const Diagnosis d = found(
      graph, [](const CanonicalGraph& g) { return count(g, Op::divide) == 0 || unit::operations(g) == 1; });
  EXPECT_EQ(d.variant,
            "without divide (operation 3) it has a plan: return what that reads, and compute it in a second "
            "function");
}

TEST(Diagnosis, long_parts_are_named_by_their_ends) {
  auto f = [](const Array& x) {
    Array y = x;
    for (int i = 0; i < 12; ++i) y = stiletto::exp(y);
    return y;
  };
  const auto graph = unit::lower(f, on_cpu({8})).graph;
  const Diagnosis d = found(graph, [](const CanonicalGraph& g) { return count(g, Op::exp) < 7; });
  EXPECT_EQ(d.part, "the 7 operations from exp (operation 1) to exp (operation 7)");
  EXPECT_EQ(d.variant,
            "as two functions it has plans: return the result of exp (operation 6) from the first and pass "
            "it to the "
            "second");
}

// No smaller part that is connected is refused: what can be left away at an end has been tried.
TEST(Diagnosis, parts_are_minimal) {
  auto f = [](const Array& x, const Array& y) {
    return stiletto::tanh(stiletto::abs(x) + stiletto::exp(y)) * stiletto::sin(x);
  };
  const auto graph = unit::lower(f, on_cpu({8}), on_cpu({8})).graph;
  const Diagnosis d =
      found(graph, [](const CanonicalGraph& g) { return count(g, Op::exp) == 0 || count(g, Op::tanh) == 0; });
  EXPECT_EQ(
      d.part,
      "tanh(add(%1, exp(arg1))) (operations 3, 5 and 6), where %1 is float32[i=8] and arg1 is float32[i=8]");
}

TEST(Diagnosis, nothing_helps) {
  const auto graph = unit::lower(layer, on_cpu({4, 8}, f16), on_cpu({8, 5}, f16)).graph;
  const Diagnosis d = found(graph, nothing);
  EXPECT_EQ(d.variant, "");
  EXPECT_EQ(d.part,
            "matmul(arg0, arg1, over k) (operation 2), where arg0 is float16[i=4,k=8] and arg1 is "
            "float16[j=5,k=8]");
  EXPECT_FALSE(d.stopped);
}

// ---- asking ---------------------------------------------------------------------------------------------

TEST(Diagnosis, plans_are_built_only_where_some_are_proposed) {
  const auto graph = unit::lower(layer, on_cpu({4, 8}, f16), on_cpu({8, 5}, f16)).graph;
  int built = 0;
  const Rule proposes = lacks(Op::softmax);
  const Diagnosis d = diagnose(graph,
                               {proposes,
                                [&](const CanonicalGraph& g) {
                                  EXPECT_TRUE(proposes(g)) << g.to_string();
                                  ++built;
                                  return true;
                                }},
                               later());
  EXPECT_FALSE(d.variant.empty());
  EXPECT_LE(built, 3);
}

TEST(Diagnosis, what_is_proposed_and_cannot_be_built_is_refused) {
  const auto graph = unit::lower(layer, on_cpu({4, 8}, f16), on_cpu({8, 5}, f16)).graph;
  const Diagnosis d =
      diagnose(graph, {[](const CanonicalGraph&) { return true; }, lacks(Op::softmax)}, later());
  EXPECT_EQ(d.part, "softmax(%2, over j) (operation 3), where %2 is float16[i=4,j=5]");
  const Diagnosis none = diagnose(graph, {[](const CanonicalGraph&) { return true; }, nothing}, later());
  EXPECT_EQ(none.variant, "");
}

TEST(Diagnosis, exceptions_are_refusals) {
  const auto graph = unit::lower(layer, on_cpu({4, 8}, f16), on_cpu({8, 5}, f16)).graph;
  const Rule throws = [](const CanonicalGraph&) -> bool { throw stiletto::DeviceError("no memory"); };
  EXPECT_EQ(diagnose(graph, {throws, throws}, later()).variant, "");
}

TEST(Diagnosis, nothing_is_asked_when_the_time_is_up) {
  const auto graph = unit::lower(layer, on_cpu({4, 8}, f16), on_cpu({8, 5}, f16)).graph;
  int asked = 0;
  const Rule counts = [&](const CanonicalGraph&) { return ++asked == 0; };
  const Diagnosis d = diagnose(graph, {counts, counts}, std::chrono::steady_clock::now());
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(d.stopped);
  EXPECT_EQ(d.variant, "");
  EXPECT_EQ(d.part, "") << "nothing is known of parts";
}

// ---- the explanation ------------------------------------------------------------------------------------

class Explanation : public testing::Test {
 protected:
  void SetUp() override { set("60"); }
  void TearDown() override { unsetenv("STILETTO_DIAGNOSIS"); }
  static void set(const char* seconds) { setenv("STILETTO_DIAGNOSIS", seconds, 1); }

  struct FakePlan : detail::Plan {
    std::size_t workspace() const override { return 4096; }
    void execute(const detail::Invocation&) const override {}
    bool allows_in_place(std::size_t, std::size_t) const override { return false; }
    std::string describe() const override { return ""; }
  };

  /// The refusal of a graph that nothing but other options or `rule` helps.
  detail::Refusal explained(
      const stiletto::CompileOptions& options, std::optional<std::string> excluded,
      const Rule& rule = nothing,
      const std::function<bool(const detail::PlanOptions&)>& lifted = [](const auto&) { return false; }) {
    detail::Refusal refusal{"a GPU", "cuDNN", {{"eng0", "no"}}, std::move(excluded), ""};
    detail::cudnn::explain(
        graph, detail::PlanOptions(options), {rule, rule},
        [&](const detail::PlanOptions& others) -> std::unique_ptr<const detail::Plan> {
          if (!lifted(others)) return nullptr;
          return std::make_unique<FakePlan>();
        },
        refusal);
    return refusal;
  }

  const CanonicalGraph graph = unit::lower(layer, on_cpu({4, 8}, f16), on_cpu({8, 5}, f16)).graph;
};

TEST_F(Explanation, the_option_in_the_way) {
  auto workspace = explained({.max_workspace = 1}, "max_workspace", nothing,
                             [](const auto& others) { return !others.max_workspace; });
  EXPECT_EQ(workspace.hint, "allow max_workspace of 4096");
  auto deterministic = explained({.deterministic = true}, "deterministic", nothing,
                                 [](const auto& others) { return !others.deterministic; });
  EXPECT_EQ(deterministic.hint, "leave deterministic at false");
  auto heuristics = explained({.heuristics = {stiletto::Heuristic::b}}, std::nullopt, nothing,
                              [](const auto& others) { return others.heuristics.empty(); });
  EXPECT_EQ(heuristics.hint, "leave heuristics at its default");
  EXPECT_EQ(heuristics.excluded_by, "heuristics");
}

TEST_F(Explanation, an_option_that_is_not_alone_in_the_way) {
  const auto refusal = explained({.max_workspace = 1}, "max_workspace", lacks(Op::softmax));
  EXPECT_EQ(
      refusal.hint,
      "leave that option at its default; before and behind softmax (operation 3) it has plans: compute that "
      "between two functions, on the CPU");
  EXPECT_EQ(explained({}, "set_allow_tf32").hint, "leave that option at its default");
}

TEST_F(Explanation, what_nothing_helps) {
  const auto refusal = explained({}, std::nullopt);
  EXPECT_EQ(
      refusal.hint,
      "no other alignment, layout, extents or dtype and no cut in two gives it a plan; run it on the CPU");
  EXPECT_EQ(refusal.part.rfind("matmul(arg0, arg1", 0), 0U) << refusal.part;
}

TEST_F(Explanation, off) {
  set("0");
  const auto refusal = explained({}, std::nullopt, [](const CanonicalGraph&) -> bool {
    ADD_FAILURE() << "it asks";
    return false;
  });
  EXPECT_EQ(refusal.hint,
            "compile parts of it to find the one without an engine (supports says so without throwing), or "
            "run it on "
            "the CPU");
  EXPECT_EQ(refusal.part, "");
}

TEST_F(Explanation, the_time_is_up) {
  set("1e-9");
  EXPECT_EQ(explained({}, std::nullopt).hint,
            "compile parts of it to find the one without an engine (supports says so without throwing), or "
            "run it on "
            "the CPU; the search stopped after 1e-09 s, STILETTO_DIAGNOSIS=1e-08 gives it longer");
}

TEST_F(Explanation, seconds) {
  using detail::cudnn::diagnosis_seconds;
  EXPECT_EQ(diagnosis_seconds(), 60);
  set("0.5");
  EXPECT_EQ(diagnosis_seconds(), 0.5);
  for (const char* none : {"", "-1", "two", "2s", "nan", "inf"}) {
    set(none);
    EXPECT_EQ(diagnosis_seconds(), 2) << none;
  }
  unsetenv("STILETTO_DIAGNOSIS");
  EXPECT_EQ(diagnosis_seconds(), 2);
}

}  // namespace
#endif
