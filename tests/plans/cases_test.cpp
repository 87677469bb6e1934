// SPDX-License-Identifier: Apache-2.0
// Public fault reports about graphs that no engine takes.
#include "plans/fixture.hpp"

namespace {

using plans::Array;
using plans::CompileOptions;
using plans::DType;
using stiletto::spec;
using stiletto::Target;
using stiletto::UnsupportedGraphError;

class PublicCases : public plans::PlanTest {};

/// Operations, shapes, dtypes, strides, the version of cuDNN and a reason, all in the text.
template <class F>
void expect_explained(F f, const std::vector<Array>& arguments, const std::vector<std::string>& facts) {
  const CompileOptions options{.target = Target::named("h200")};
  try {
    stiletto::compile(options, f, arguments[0], arguments[1], arguments[2]);
    ADD_FAILURE() << "there is a plan";
  } catch (const UnsupportedGraphError& error) {
    const std::string text = error.what();
    ASSERT_FALSE(error.reasons.empty());
    std::vector<std::string> parts = facts;
    parts.insert(parts.end(), {error.graph, error.target, error.library, error.reasons[0].reason});
    for (const std::string& part : parts) plans::expect_part(text, part);
    EXPECT_EQ(error.library.rfind("cuDNN 9.", 0), 0U) << error.library;
  }
}

TEST_F(PublicCases, case_133) {
  auto products = [](const Array& a, const Array& b, const Array& c) {
    return stiletto::matmul(stiletto::matmul(a, b), c);
  };
  const DType f16 = DType::float16, f32 = DType::float32, f64 = DType::float64;
  {
    SCOPED_TRACE("two products of mixed dtypes");
    expect_explained(products, {spec({64, 128}, f16), spec({128, 96}, f16, {1, 128}), spec({96, 32}, f32)},
                     {"a product of a product", "axes i=64 j=32 k=128 l=96",
                      "matmul(%0, %1, over k): float16[i,l]", "arg1: float16[k,l] strides (1, 128)",
                      "arg2: float32[j,l] strides (1, 32)", "matmul(%4, %3, over l): float32[i,j]"});
  }
  {
    SCOPED_TRACE("a chain of float64 products");
    expect_explained(
        products, {spec({64, 128}, f64), spec({128, 96}, f64, {1, 128}), spec({96, 32}, f64)},
        {"a product of a product", "axes i=64 j=32 k=128 l=96", "matmul(%0, %1, over k): float64[i,l]",
         "arg1: float64[k,l] strides (1, 128)", "matmul(%2, %3, over l): float64[i,j]"});
  }
  {
    SCOPED_TRACE("attention of float64");
    const Array q = spec({2, 64, 4, 32}, f64);
    expect_explained(
        [](const Array& a, const Array& b, const Array& c) { return stiletto::attention(a, b, c); },
        {q, q, q},
        {"q of attention is float64",
         "attention(%0[m,n,o,p], %1[q,r,s,t], %2[u,v,w,x], %3): float64[i,j,k,l]",
         "arg0: float64[m,n,o,p] strides (8192, 128, 32, 1)"});
  }
  {
    SCOPED_TRACE("a convolution of float8");
    const Array x = spec({1, 3, 8, 8}, DType::float8_e4m3), w = spec({5, 3, 3, 3}, DType::float8_e4m3);
    EXPECT_THROW(stiletto::compile(
                     {.target = Target::named("h200")},
                     [](const Array& a, const Array& b) { return stiletto::conv(a, b); }, x, w),
                 stiletto::DTypeError);
  }
}

/// A batch whose operands have different numbers of tiles of scales.
TEST_F(PublicCases, case_27) {
  using stiletto::BlockscaledArray;
  const CompileOptions options{.target = Target::named("b200")};
  const auto f = [](const BlockscaledArray& a, const BlockscaledArray& b) { return stiletto::matmul(a, b); };
  const BlockscaledArray a = BlockscaledArray::spec({2, 128, 128}, stiletto::BlockFormat::mxfp8_e4m3, -1),
                         b = BlockscaledArray::spec({2, 128, 256}, stiletto::BlockFormat::mxfp8_e4m3, -2);
  EXPECT_EQ(stiletto::supports(options, f, a, b).explanation, "");
}

/// No engine takes two operands that are both broadcast; with one of them written out there is a plan, which
/// tests/device executes, as it does that of case 57.
TEST_F(PublicCases, case_136) {
  const CompileOptions options{.target = Target::named("h200")};
  auto add = [](const Array& a, const Array& b) { return a + b; };
  auto product = [](const Array& a, const Array& b) { return stiletto::matmul(a, b); };
  const DType f16 = DType::float16, i8 = DType::int8;
  for (const std::int64_t columns : {32767, 32769}) {
    const Array column = spec({65536, 1}, f16), row = spec({1, columns}, f16);
    const std::string refusal = stiletto::supports(options, add, column, row).explanation;
    for (const char* part : {"no engine takes this graph", "add(%0, %1): float16[i,j]", "cuDNN 9."})
      EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
    EXPECT_NE(stiletto::supports(options, add, spec({65536, 1}, i8), spec({1, columns}, i8))
                  .explanation.find("add of int8"),
              std::string::npos);
    EXPECT_EQ(stiletto::supports(options, product, column, row).explanation, "");
    EXPECT_EQ(stiletto::supports(options, add, spec({65536, columns}, f16), row).explanation, "");
  }
}

}  // namespace
