// SPDX-License-Identifier: Apache-2.0
// What errors say of graphs that cuDNN has no plan for, for an H200: what would have one.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "plans/fixture.hpp"

namespace {

using plans::Array;
using plans::CompileOptions;
using plans::DType;
using plans::refusal;
using stiletto::matmul;
using stiletto::spec;
using stiletto::Target;
using stiletto::UnsupportedGraphError;

constexpr DType f16 = DType::float16, f32 = DType::float32, f64 = DType::float64, f8 = DType::float8_e4m3;

/// Where it is there, variants are launched as well.
CompileOptions on_h200() {
  if (plans::is_here("h200")) return {};
  return {.target = Target::named("h200")};
}

class Diagnosis : public plans::PlanTest {
 protected:
  void SetUp() override {
    PlanTest::SetUp();
    set("600");  // whatever else the machine is doing
  }
  void TearDown() override { set("0"); }  // as main() has it
  static void set(const char* seconds) { setenv("STILETTO_DIAGNOSIS", seconds, 1); }
};

/// what(), of one version of cuDNN and without what its engines say in their own words.
std::string text_of(const UnsupportedGraphError& error) {
  std::string text = error.what();
  text.replace(text.find(error.library), error.library.size(), "cuDNN 9.19.0");
  for (std::size_t at = text.find("\n  eng"); at != std::string::npos; at = text.find("\n  eng"))
    text.erase(at, text.find('\n', at + 1) - at);
  return text;
}

void expect_in_documentation(const std::string& text) {
  std::ifstream file(STILETTO_SOURCE_DIR "/docs/cudnn.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(page.find("```text\n" + text + "```\n"), std::string::npos) << "docs/cudnn.md lacks\n" << text;
}

// ---- whole texts; docs/cudnn.md shows the first three
// -------------------------------------------------------------------------

TEST_F(Diagnosis, an_operand_in_another_order) {
  auto sum = [](const Array& x, const Array& y) { return x + stiletto::transpose(y); };
  const auto error = refusal(on_h200(), sum, spec({64, 128}, f32), spec({128, 64}, f32));
  EXPECT_EQ(
      text_of(error),
      "no engine takes this graph on NVIDIA H200 (sm_90) with cuDNN 9.19.0; with arg1 of strides (128, 1) "
      "over i,j instead of (1, 64) it has a plan: pass a copy made outside the function that lies in memory "
      "like that\n"
      "  lowering, 1 x 64 x 128 and 1 x 64 x 128, behind a product of ones: arg1 has gaps between its "
      "elements "
      "along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the "
      "order of the result\n"
      "  lowering, 1 x 128 x 64: arg0 has gaps between its elements along every axis that cuDNN could "
      "walk innermost; pass a copy of it made outside the function, in the order of the result\n"
      "  lowering, 64 x 1 x 128, other orders as products with a one: arg1 lies in another order than the "
      "result, and float32 operands of a product are rounded; pass a copy of it made outside the function in "
      "the order of the "
      "result\n"
      "graph\n"
      "  axes i=64 j=128\n"
      "  %0 = arg0: float32[i,j] strides (128, 1)\n"
      "  %1 = arg1: float32[i,j] strides (1, 64)\n"
      "  %2 = add(%0, %1): float32[i,j]\n"
      "  %2 -> out0: float32[i,j] strides (128, 1)\n");
  expect_in_documentation(text_of(error));
}

TEST_F(Diagnosis, odd_extents) {
  const auto error = refusal(
      on_h200(), [](const Array& x, const Array& w) { return stiletto::relu(matmul(x, w)); },
      spec({64, 100}, f8), spec({100, 96}, f8));
  EXPECT_EQ(text_of(error),
            "no engine takes this graph on NVIDIA H200 (sm_90) with cuDNN 9.19.0: a product with a matrix of "
            "float8_e4m3 whose rows are no multiple of 16 elements; with k=112 instead of 100, a multiple of "
            "16, it has a plan: pad arg0 and arg1\n"
            "  smallest part refused: matmul(arg0, arg1, over k) (operation 2), where arg0 is "
            "float8_e4m3[i=64,k=100] and arg1 is float8_e4m3[j=96,k=100]\n"
            "graph\n"
            "  axes i=64 j=96 k=100\n"
            "  %0 = arg0: float8_e4m3[i,k] strides (100, 1)\n"
            "  %1 = arg1: float8_e4m3[j,k] strides (1, 96)\n"
            "  %2 = matmul(%0, %1, over k): float32[i,j]\n"
            "  %3 = relu(%2): float32[i,j]\n"
            "  %3 -> out0: float32[i,j] strides (96, 1)\n");
  expect_in_documentation(text_of(error));
}

TEST_F(Diagnosis, a_product_and_its_softmax) {
  auto f = [](const Array& x, const Array& w) { return stiletto::softmax(matmul(x, w)); };
  const auto error = refusal(on_h200(), f, spec({64, 128}, f16), spec({128, 96}, f16));
  EXPECT_EQ(
      text_of(error),
      "no engine takes this graph on NVIDIA H200 (sm_90) with cuDNN 9.19.0; without softmax (operation 3) "
      "it has a plan: return what that reads, and compute it on the CPU\n"
      "  smallest part refused: softmax(%2, over j) (operation 3), where %2 is float16[i=64,j=96]\n"
      "graph\n"
      "  axes i=64 j=96 k=128\n"
      "  %0 = arg0: float16[i,k] strides (128, 1)\n"
      "  %1 = arg1: float16[j,k] strides (1, 96)\n"
      "  %2 = matmul(%0, %1, over k): float16[i,j]\n"
      "  %3 = softmax(%2, over j): float16[i,j]\n"
      "  %3 -> out0: float16[i,j] strides (96, 1)\n");
  expect_in_documentation(text_of(error));
}

TEST_F(Diagnosis, a_product_of_a_product) {
  auto f = [](const Array& x, const Array& v, const Array& w) {
    return matmul(stiletto::gelu(matmul(x, v)), w);
  };
  const auto error = refusal(on_h200(), f, spec({64, 128}, f16), spec({128, 96}, f16), spec({96, 32}, f16));
  EXPECT_EQ(
      text_of(error),
      "no engine takes this graph on NVIDIA H200 (sm_90) with cuDNN 9.19.0: a product of a product; store "
      "the "
      "first and multiply it in a call of its own; as two functions it has plans: return the result of gelu "
      "(operation 4) from the first and pass it to the second\n"
      "  smallest part refused: matmul(gelu(matmul(arg0, arg1, over k)), arg2, over l) (operations 3, 4 and "
      "5), where arg0 is float16[i=64,k=128], arg1 is float16[k=128,l=96] and arg2 is float16[j=32,l=96]\n"
      "graph\n"
      "  axes i=64 j=32 k=128 l=96\n"
      "  %0 = arg0: float16[i,k] strides (128, 1)\n"
      "  %1 = arg1: float16[k,l] strides (96, 1)\n"
      "  %2 = matmul(%0, %1, over k): float16[i,l]\n"
      "  %3 = gelu(%2): float16[i,l]\n"
      "  %4 = arg2: float16[j,l] strides (1, 32)\n"
      "  %5 = cast(%3): float16[i,l]\n"
      "  %6 = matmul(%5, %4, over l): float16[i,j]\n"
      "  %6 -> out0: float16[i,j] strides (32, 1)\n");
}

// A copy of the operand, whose strides keep the axes from merging, would be refused like the operand.
TEST_F(Diagnosis, no_advice_that_is_refused_as_well) {
  auto f = [](const Array& x) { return stiletto::prod(x, {0}); };
  EXPECT_EQ(
      refusal(on_h200(), f, spec({64, 64}, f32)).hint,
      "no other alignment, layout, extents or dtype and no cut in two gives it a plan; run it on the CPU");
}

TEST_F(Diagnosis, the_parts_of_attention) {
  auto f = [](const Array& q, const Array& k, const Array& v) {
    return matmul(stiletto::softmax(matmul(q, stiletto::transpose(k)) * 0.125F), v);
  };
  const std::string text =
      refusal(on_h200(), f, spec({64, 32}, f16), spec({128, 32}, f16), spec({128, 32}, f16)).what();
  EXPECT_EQ(text.find("a call of its own"), std::string::npos) << text;
  plans::expect_part(text, "a product of the softmax of a product; call attention");
}

TEST_F(Diagnosis, accumulation_in_float64) {
  CompileOptions options = on_h200();
  options.compute_dtype = f64;
  auto f = [](const Array& x, const Array& w) { return matmul(x, w); };
  const auto error = refusal(options, f, spec({64, 32}, f16), spec({32, 64}, f16));
  EXPECT_EQ(error.excluded_by, "compute_dtype");
  EXPECT_EQ(error.hint, "leave compute_dtype at float32");
  plans::expect_part(error.what(),
                     ": cuDNN does not accumulate narrower types in float64 (option compute_dtype); leave "
                     "compute_dtype at float32\n");
}

TEST_F(Diagnosis, float64) {
  auto f = [](const Array& x) { return stiletto::exp(x) * 2.0; };
  const auto error = refusal(on_h200(), f, spec({64, 128}, f64));
  EXPECT_EQ(
      text_of(error),
      "no engine takes this graph on NVIDIA H200 (sm_90) with cuDNN 9.19.0: cuDNN computes with float64 in "
      "products only; with arg0 as float32 instead of float64 it has a plan\n"
      "  smallest part refused: exp(arg0) (operation 1), where arg0 is float64[i=8192]\n"
      "graph\n"
      "  axes i=8192\n"
      "  %0 = arg0: float64[i] strides (1)\n"
      "  %1 = exp(%0): float64[i]\n"
      "  %2 = scalar0: float32\n"
      "  %3 = multiply(%1, %2): float64[i]\n"
      "  %3 -> out0: float64[i] strides (1)\n");
}

// ---- others ---------------------------------------------------------------------------------------------

TEST_F(Diagnosis, hints) {
  auto hint = [](auto f, const auto&... arguments) { return refusal(on_h200(), f, arguments...).hint; };
  auto add = [](const Array& x, const Array& y) { return x + y; };
  auto squares = [](const Array& x) { return x * x; };
  auto attention = [](const Array& q, const Array& k, const Array& v) {
    return matmul(stiletto::softmax(matmul(q, stiletto::transpose(k)) * 0.125F), v);
  };
  auto computed_rows = [](const Array& x, const Array& w) {
    return matmul(stiletto::exp(stiletto::slice(x, {stiletto::Slice{}, stiletto::Slice{1, 129}})), w);
  };
  EXPECT_EQ(hint(add, spec({64, 128}, f16), spec({64, 128}, f16, {128, -1})),
            "with arg1 of strides (128, 1) over i,j instead of (128, -1) it has a plan: pass a copy of that "
            "view made outside the function");
  EXPECT_EQ(hint(squares, spec({64}, DType::int32)), "with arg0 as float32 instead of int32 it has a plan");
  EXPECT_EQ(hint(attention, spec({64, 32}, f16), spec({128, 32}, f16), spec({128, 32}, f16)),
            "call attention, which is one operation and has engines for float16 and bfloat16");
  EXPECT_EQ(hint(computed_rows, spec({64, 136}, f16), spec({128, 96}, f16)),
            "with arg0 at a multiple of 16 bytes in memory it has a plan: pass a copy of that view made "
            "outside the function");
  EXPECT_EQ(
      hint([](const Array& x) { return stiletto::softmax(x); }, spec({64, 128}, f16)),
      "no other alignment, layout, extents or dtype and no cut in two gives it a plan; run it on the CPU");
}

// The variant that a hint names has a plan.
TEST_F(Diagnosis, hints_can_be_followed) {
  auto sum = [](const Array& x, const Array& y) { return x + y; };
  EXPECT_NO_THROW(stiletto::compile(on_h200(), sum, spec({64, 128}, f16), spec({64, 128}, f16)));
  auto layer = [](const Array& x, const Array& w) { return stiletto::relu(matmul(x, w)); };
  EXPECT_NO_THROW(stiletto::compile(on_h200(), layer, spec({64, 112}, f8), spec({112, 96}, f8)));
  auto first = [](const Array& x, const Array& v) { return stiletto::gelu(matmul(x, v)); };
  EXPECT_NO_THROW(stiletto::compile(on_h200(), first, spec({64, 128}, f16), spec({128, 96}, f16)));
  auto second = [](const Array& y, const Array& w) { return matmul(y, w); };
  EXPECT_NO_THROW(stiletto::compile(on_h200(), second, spec({64, 96}, f16), spec({96, 32}, f16)));
}

TEST_F(Diagnosis, supports_says_the_same) {
  auto f = [](const Array& x) { return stiletto::exp(x) * 2.0; };
  EXPECT_EQ(stiletto::supports(on_h200(), f, spec({64, 128}, f64)).explanation,
            refusal(on_h200(), f, spec({64, 128}, f64)).what());
}

}  // namespace
