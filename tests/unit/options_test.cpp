// SPDX-License-Identifier: Apache-2.0
// The options of compile and jit: what each changes, what it refuses, the allocator's contract, and
// `supports`, which answers where compile would throw.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "stiletto/stiletto.hpp"
#include "unit/error_text.hpp"

namespace {

using stiletto::Array;
using stiletto::compile;
using stiletto::CompileOptions;
using stiletto::Device;
using stiletto::DType;
using stiletto::jit;
using stiletto::Shape;
using unit::error_of;

Array twice(const Array& x) { return x * 2; }

TEST(CompileOptions, autotune_means_nothing_on_the_cpu) {
  const stiletto::Array x = stiletto::full({4}, 2);
  auto f = [](const stiletto::Array& a) { return a * 3; };
  const stiletto::CompileOptions options{.autotune = stiletto::Autotune::on};
  EXPECT_EQ(stiletto::compile(options, f, x)(x).to_vector<float>(), std::vector<float>(4, 6));
  EXPECT_EQ(stiletto::jit(options, f, x).to_vector<float>(), std::vector<float>(4, 6));
}

TEST(CompileOptions, defaults) {
  const CompileOptions options;
  EXPECT_FALSE(options.io_dtype);
  EXPECT_EQ(options.intermediate_dtype, DType::float32);
  EXPECT_EQ(options.compute_dtype, DType::float32);
  EXPECT_FALSE(options.allocator);
  EXPECT_FALSE(options.max_workspace);
  EXPECT_FALSE(options.deterministic);
}

TEST(CompileOptions, io_dtype_is_the_type_of_outputs) {
  const Array x = stiletto::ones({4});
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float64, DType::float8_e4m3}) {
    EXPECT_EQ(jit({.io_dtype = dtype}, twice, x).dtype(), dtype);
    EXPECT_EQ(compile({.io_dtype = dtype}, twice, x)(x).dtype(), dtype);
  }
  auto kept = [](const Array& a) {
    return std::pair<Array, Array>(stiletto::cast(a * 2, DType::float32), a > 0);
  };
  const auto [cast, comparison] = jit({.io_dtype = DType::float16}, kept, x);
  EXPECT_EQ(cast.dtype(), DType::float32) << "an explicit cast stays";
  EXPECT_EQ(comparison.dtype(), DType::boolean);
  EXPECT_EQ(jit(
                {.io_dtype = DType::float16}, [](const Array& a) { return a; }, x)
                .dtype(),
            DType::float32)
      << "a returned argument is that memory";
}

TEST(CompileOptions, io_dtype_rounds_once) {
  // 1 + 2⁻¹² in float16 steps would stay 1; held in float32 it becomes 4096 + 1 before the one rounding.
  const Array x = stiletto::full({1}, 1.0, DType::float32);
  auto f = [](const Array& a) { return (a + 1.0 / 4096) * 4096; };
  EXPECT_EQ(static_cast<float>(jit({.io_dtype = DType::float16}, f, x).item<stiletto::half>()), 4096.0F);
  EXPECT_EQ(jit(f, x).item<float>(), 4097.0F);
}

TEST(CompileOptions, intermediate_dtype_holds_values_inside) {
  const Array x = stiletto::full({1}, 1.0);
  auto f = [](const Array& a) { return (a + 1.0 / 4096) - 1; };
  EXPECT_EQ(jit(f, x).item<float>(), 1.0F / 4096);
  EXPECT_EQ(jit({.intermediate_dtype = DType::float16}, f, x).item<float>(), 0);
  EXPECT_EQ(jit({.intermediate_dtype = DType::bfloat16}, f, x).item<float>(), 0);
  const Array big = stiletto::full({1}, 60000, DType::float16);
  auto square_root = [](const Array& a) { return stiletto::sqrt(a * a); };
  EXPECT_EQ(static_cast<float>(jit(square_root, big).item<stiletto::half>()), 60000.0F)
      << "a float16 chain does not overflow in the middle";
}

TEST(CompileOptions, dtypes_that_are_none) {
  const Array x = stiletto::ones({4});
  for (DType dtype : {DType::int32, DType::boolean, DType::float4_e2m1, DType::float8_e8m0}) {
    EXPECT_THROW(compile({.io_dtype = dtype}, twice, x), stiletto::DTypeError) << dtype;
    EXPECT_THROW(jit({.intermediate_dtype = dtype}, twice, x), stiletto::DTypeError) << dtype;
    EXPECT_THROW(compile({.compute_dtype = dtype}, twice, x), stiletto::DTypeError) << dtype;
  }
}

TEST(CompileOptions, deterministic_is_what_the_cpu_is) {
  const Array x = stiletto::ones({100, 100});
  auto f = [](const Array& a) { return stiletto::sum(stiletto::exp(a), 0); };
  EXPECT_EQ(jit({.deterministic = true}, f, x).to_vector<float>(), jit(f, x).to_vector<float>());
}

TEST(CompileOptions, max_workspace) {
  const Array x = stiletto::ones({64, 64});
  auto f = [](const Array& a) { return stiletto::softmax(a); };
  const auto c = compile(f, x);
  ASSERT_GT(c.workspace(), 0U);
  EXPECT_NO_THROW(compile({.max_workspace = c.workspace()}, f, x));
  EXPECT_EQ(compile({.max_workspace = c.workspace()}, f, x).workspace(), c.workspace());
  EXPECT_THROW(compile({.max_workspace = c.workspace() - 1}, f, x), stiletto::UnsupportedGraphError);
  EXPECT_THROW(jit({.max_workspace = 0}, f, x), stiletto::UnsupportedGraphError);
  EXPECT_NO_THROW(jit({.max_workspace = 0}, [](const Array& a) { return a; }, x)) << "nothing to compute";
}

TEST(CompileOptions, what_an_unsupported_graph_says) {
  const Array x = stiletto::ones({3, 4});
  try {
    compile({.compute_dtype = DType::bfloat16}, twice, x);
    FAIL() << "nothing was thrown";
  } catch (const stiletto::UnsupportedGraphError& error) {
    EXPECT_EQ(error.graph,
              "graph\n"
              "  axes i=12\n"
              "  compute bfloat16\n"
              "  %0 = arg0: float32[i] strides (1)\n"
              "  %1 = scalar0: int32\n"
              "  %2 = multiply(%0, %1): float32[i]\n"
              "  %2 -> out0: float32[i] strides (1)\n");
    EXPECT_EQ(error.target.rfind("CPU (", 0), 0U) << error.target;
    EXPECT_EQ(error.library.rfind("oneDNN 3", 0), 0U) << error.library;
    ASSERT_EQ(error.reasons.size(), 1U);
    EXPECT_EQ(error.reasons[0].engine, "cpu");
    EXPECT_EQ(error.reasons[0].reason, "it accumulates in float32 or float64, not in bfloat16");
    EXPECT_EQ(error.excluded_by, "compute_dtype");
    const std::string text = error.what();
    for (const std::string& fact : {error.graph, error.target, error.library, error.reasons[0].reason,
                                    error.excluded_by.value(), error.hint})
      EXPECT_NE(text.find(fact), std::string::npos) << fact << "\nis not in\n" << text;
  }
}

// ---- the allocator --------------------------------------------------------------------------------------

TEST(OutputAllocator, is_asked_once_per_output) {
  const Array x = stiletto::ones({2, 3});
  struct Request {
    Device device;
    Shape shape;
    DType dtype;
  };
  std::vector<Request> requests;
  const CompileOptions options{.allocator = [&](Device device, const Shape& shape, DType dtype) {
    requests.push_back({device, shape, dtype});
    return stiletto::empty(shape, dtype, device);
  }};
  auto f = [](const Array& a) {
    const Array y = stiletto::exp(a);
    return std::vector<Array>{y, stiletto::sum(y, 1, true), y, a};
  };
  const auto c = compile(options, f, x);
  EXPECT_TRUE(requests.empty()) << "compiling allocates no outputs";
  c(x);
  ASSERT_EQ(requests.size(), 2U) << "one value returned twice is one output, a returned argument is none";
  EXPECT_EQ(requests[0].shape, (Shape{2, 3}));
  EXPECT_EQ(requests[1].shape, (Shape{2, 1}));
  EXPECT_EQ(requests[0].dtype, DType::float32);
  EXPECT_EQ(requests[0].device, Device::cpu());
  c(x);
  EXPECT_EQ(requests.size(), 4U);
  c.bindings(x);
  EXPECT_EQ(requests.size(), 6U);
  jit(
      options, [](const Array& d, const Array& a) { stiletto::assign(d, a * 2); }, stiletto::zeros({2, 3}),
      x);
  EXPECT_EQ(requests.size(), 6U) << "stores allocate nothing";
}

TEST(OutputAllocator, its_memory_is_the_output_whatever_the_strides) {
  const Array x = stiletto::transpose(stiletto::ones({2, 3}));
  Array memory;
  const CompileOptions options{.allocator = [&](Device device, const Shape& shape, DType dtype) {
    memory = stiletto::zeros(shape, dtype, device);
    return memory;
  }};
  const Array y = jit(options, twice, x);
  EXPECT_EQ(y.raw_data(), memory.raw_data());
  EXPECT_EQ(y.strides(), (stiletto::Dims{1, 3})) << "laid over contiguous memory";
  EXPECT_TRUE(memory.is_contiguous());
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(6, 2));
}

TEST(OutputAllocator, may_use_compiled_functions_itself) {
  const Array x = stiletto::ones({4});
  const auto inner = compile(twice, x);
  const CompileOptions options{.allocator = [&](Device device, const Shape& shape, DType dtype) {
    inner(x);
    return stiletto::empty(shape, dtype, device);
  }};
  EXPECT_EQ(jit(options, twice, x).to_vector<float>(), std::vector<float>(4, 2));
}

TEST(OutputAllocator, must_not_hand_out_an_input) {
  Array x = stiletto::ones({4, 4});
  const CompileOptions options{.allocator = [&](Device, const Shape&, DType) { return x; }};
  EXPECT_THROW(jit(
                   options, [](const Array& a) { return stiletto::transpose(stiletto::exp(a)); }, x),
               stiletto::AliasError);
}

TEST(OutputAllocator, what_it_throws_reaches_the_caller) {
  const Array x = stiletto::ones({4});
  struct NoMemory {};
  bool fail = true;
  const CompileOptions options{.allocator = [&](Device device, const Shape& shape, DType dtype) {
    if (fail) throw NoMemory();
    return stiletto::empty(shape, dtype, device);
  }};
  const auto c = compile(options, twice, x);
  EXPECT_THROW(c(x), NoMemory);
  fail = false;
  EXPECT_EQ(c(x).to_vector<float>(), std::vector<float>(4, 2));
}

// ---- supports -------------------------------------------------------------------------------------------

TEST(Supports, answers_without_throwing) {
  const Array x = stiletto::ones({3, 4});
  const stiletto::Support yes = stiletto::supports({}, twice, x);
  EXPECT_TRUE(yes.supported);
  EXPECT_EQ(yes.explanation, "");
  const CompileOptions narrow{.compute_dtype = DType::float16};
  const stiletto::Support no = stiletto::supports(narrow, twice, x);
  EXPECT_FALSE(no.supported);
  EXPECT_EQ("UnsupportedGraphError: " + no.explanation, error_of([&] { compile(narrow, twice, x); }));
}

TEST(Supports, takes_specs_and_scalars) {
  const Array x = stiletto::spec({3, 4}, DType::float32, {}, Device::cpu());
  auto f = [](const Array& a, const Array& s) { return a * s; };
  EXPECT_TRUE(stiletto::supports({}, f, x, 2.0F).supported);
  EXPECT_FALSE(stiletto::supports(
                   {.max_workspace = 0}, [](const Array& a) { return stiletto::softmax(a); }, x)
                   .supported);
}

TEST(Supports, what_the_function_throws_is_an_answer) {
  const Array x = stiletto::ones({3, 4});
  const stiletto::Support shapes =
      stiletto::supports({}, [](const Array& a) { return stiletto::matmul(a, a); }, x);
  EXPECT_FALSE(shapes.supported);
  EXPECT_EQ(shapes.explanation.rfind("operation 1, matmul: (3, 4) · (3, 4)", 0), 0U) << shapes.explanation;
  const stiletto::Support own =
      stiletto::supports({}, [](const Array&) -> Array { throw std::runtime_error("no such layer"); }, x);
  EXPECT_FALSE(own.supported);
  EXPECT_EQ(own.explanation, "no such layer");
}

#ifndef STILETTO_HAS_CUDNN  // which answers for GPUs that are not there
TEST(Supports, a_device_that_is_not_there) {
  const Array x = stiletto::spec({3, 4}, DType::float32, {}, Device::cuda(0));
  stiletto::Support answer{true, {}};
  EXPECT_NO_THROW(answer = stiletto::supports({}, twice, x));
  EXPECT_FALSE(answer.supported);
  EXPECT_NE(answer.explanation.find("cuda:0"), std::string::npos) << answer.explanation;
}
#endif

}  // namespace
