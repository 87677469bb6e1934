// SPDX-License-Identifier: Apache-2.0
// The complete text of every error of src/compiler and of the CPU backend's refusals: compiling, calling,
// allocating, aliases, bindings. Each case names the file that throws. Not here, as long as there is one kind
// of device: what call_checks.cpp, executable.cpp and tracing.cpp say about memory on another one.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Array;
using stiletto::compile;
using stiletto::CompileOptions;
using stiletto::Device;
using stiletto::DType;
using stiletto::jit;
using stiletto::Slice;
using unit::expect_text;

Array twice(const Array& x) { return x * 2; }
Array scaled(const Array& x, const Array& s) { return x * s; }

// executable.cpp: what compile refuses
TEST(CompilerErrorTexts, options) {
  const Array x = stiletto::ones({2});
  expect_text([&] { compile({.io_dtype = DType::int32}, twice, x); },
              "DTypeError: compile: io_dtype is int32; it has to be a floating-point dtype");
  expect_text(
      [&] { compile({.intermediate_dtype = DType::int8}, twice, x); },
      "DTypeError: compile: intermediate_dtype is int8; it has to be float16, bfloat16, float32 or float64");
  expect_text(
      [&] { jit({.compute_dtype = DType::boolean}, twice, x); },
      "DTypeError: compile: compute_dtype is boolean; it has to be float16, bfloat16, float32 or float64");
}
TEST(CompilerErrorTexts, functions_without_effect) {
  const Array x = stiletto::ones({2});
  expect_text([&] { compile([](const Array&) {}, x); },
              "TraceError: compile: the function returns nothing and stores nothing; return an array, or "
              "assign to an argument");
  expect_text([&] { jit([](const Array& a) { a + 1; }, x); },
              "TraceError: compile: the function returns nothing and stores nothing; return an array, or "
              "assign to an argument");
}
TEST(CompilerErrorTexts, devices) {
  const Array here = stiletto::ones({2}), there = stiletto::spec({2}, DType::float32);
  auto f = [](const Array& a, const Array& b) { return a + b; };
  expect_text(
      [&] { compile(f, here, there); },
      "ArgumentError: compile: arg1 is on cuda:0, arg0 on cpu; all arrays of a function have to be "
      "on one device: move them with .to(device), and give spec theirs: spec(shape, dtype, {}, device)");
  expect_text(
      [&] { compile([&](const Array& a) { return a + here; }, there); },
      "ArgumentError: compile: capture0 is on cpu, arg0 on cuda:0; all arrays of a function have to "
      "be on one device: move them with .to(device), and give spec theirs: spec(shape, dtype, {}, device)");
#ifndef STILETTO_HAS_CUDNN
  expect_text([&] { compile(twice, there); },
              "DeviceError: compile: this build of Stiletto has no backend for cuda:0; use Device::cpu(), or "
              "a build with the cuDNN backend");
#endif
}

// trace.cpp: arguments that are not arguments
TEST(CompilerErrorTexts, traced_arguments) {
  const Array x = stiletto::ones({2});
  expect_text([&] { jit([](const Array& a) { return compile(twice, a)(a); }, x); },
              "TraceError: compile: arg0 is a traced array of trace N; compile outside the traced function, "
              "or call the function itself inside it");
  expect_text([&] { jit([](const Array& a) { return compile(scaled, a * 2, 1.0)(a, 1.0); }, x); },
              "TraceError: compile: arg0 is a traced array of trace N; compile outside the traced function, "
              "or call the function itself inside it");
}

// canonicalize.cpp
TEST(CompilerErrorTexts, stores_that_overlap) {
  const Array y = stiletto::zeros({4, 6}), x = stiletto::ones({4, 3});
  auto f = [](const Array& d, const Array& a) {
    stiletto::assign(stiletto::slice(d, {Slice{}, Slice{0, 3}}), a);
    stiletto::assign(stiletto::slice(d, {Slice{}, Slice{2, 5}}), a);
  };
  expect_text(
      [&] { jit(f, y, x); },
      "AliasError: operation 4, store: two stores to arg0 overlap: shape (4, 3) strides (6, 1) offset 0, and "
      "shape (4, 3) strides (6, 1) offset 2; store to disjoint parts, or to the same view");
}
TEST(CompilerErrorTexts, numbers_of_a_call_that_do_not_fit) {
  const Array x = stiletto::ones({2}, DType::int8);
  const auto c = compile([](const Array& a, const Array& s) { return stiletto::maximum(a, s + 1); }, x, 5);
  expect_text([&] { c(x, 200); },
              "DTypeError: operation 4, maximum: the number 201 does not fit the array's dtype int8; cast "
              "the array first");
  expect_text([&] { jit([](const Array& a, const Array& s) { return a - s; }, x, -300); },
              "DTypeError: operation 2, subtract: the number -300 does not fit the array's dtype int8; cast "
              "the array first");
}

// call_checks.cpp: arguments that are not as compiled
TEST(CompilerErrorTexts, arguments_of_a_call) {
  const Array x = stiletto::ones({3, 4}), s = 2.0;
  const auto c = compile(scaled, x, 2.0);
  const auto d = compile(scaled, stiletto::zeros({}), x);
  const Array odd = stiletto::reshape(stiletto::slice(stiletto::ones({13}), {Slice{1, 13}}), {3, 4});
  expect_text([&] { c(stiletto::ones({3, 5}), s); },
              "ShapeError: argument 0 (arg0) was compiled for shape (3, 4), called with (3, 5); compile with "
              "one like it, or use jit");
  expect_text([&] { c(stiletto::ones({12}), s); },
              "ShapeError: argument 0 (arg0) was compiled for shape (3, 4), called with (12); compile with "
              "one like it, or use jit");
  expect_text([&] { c(stiletto::ones({3, 4}, DType::float64), s); },
              "DTypeError: argument 0 (arg0) was compiled for float32(3, 4), called with float64(3, 4); cast "
              "it, or compile with one like it");
  expect_text([&] { c(stiletto::transpose(stiletto::ones({4, 3})), s); },
              "ArgumentError: argument 0 (arg0) was compiled for strides (4, 1), called with (1, 3); copy() "
              "makes an array row-major");
  expect_text([&] { c(odd, s); },
              "ArgumentError: argument 0 (arg0) was compiled for memory aligned to 16 bytes, called with 4; "
              "copy() aligns it");
  expect_text([&] { c(Array(), s); },
              "ArgumentError: argument 0 (arg0) is an empty handle; make the array with zeros, empty, "
              "from_data or wrap");
  expect_text([&] { c(x, Array()); },
              "ArgumentError: argument 1 (arg1) is an empty handle; make the array with zeros, empty, "
              "from_data or wrap");
  expect_text([&] { c(stiletto::spec({3, 4}, DType::float32), s); },
              "TraceError: argument 0 (arg0): a spec has no memory to run on; pass an array");
  expect_text([&] { d(2.0, x); },
              "ArgumentError: argument 0 (arg0) was compiled as an array, called with a number; wrap it with "
              "full({}, value)");
  expect_text([&] { jit([&](const Array& a) { return c(a, 1.0); }, x); },
              "TraceError: argument 0 (arg0): a compiled function takes memory, and this array belongs to "
              "trace N; inside a trace call the function itself, or jit it");
}
TEST(CompilerErrorTexts, numbers_of_a_call) {
  const Array x = stiletto::ones({2});
  const auto c = compile(scaled, x, 2);
  expect_text([&] { c(x, 2.5); },
              "DTypeError: argument 1 (arg1) was compiled as a number of int32, called with one of float32; "
              "convert it, or compile with one like it");
  expect_text([&] { c(x, x); },
              "ArgumentError: argument 1 (arg1) was compiled as a number (int32), called with an array "
              "float32(2); pass item(), or compile with an array");
  const auto h = compile(scaled, x, stiletto::half(2));
  expect_text([&] { h(x, stiletto::bfloat16(2)); },
              "DTypeError: argument 1 (arg1) was compiled as a number of float16, called with one of "
              "bfloat16; convert it, or compile with one like it");
  const auto b =
      compile([](const Array& a, const Array& flag) { return stiletto::where(flag, a, 0); }, x, true);
  expect_text([&] { b(x, 1); },
              "DTypeError: argument 1 (arg1) was compiled as a number of boolean, called with one of int32; "
              "convert it, or compile with one like it");
}
TEST(CompilerErrorTexts, members_of_a_call) {
  const Array x = stiletto::ones({2});
  auto f = [](const Array& a, const std::vector<Array>& list) { return a + list[0] + list[1]; };
  const auto c = compile(f, x, std::vector<Array>{x, x});
  expect_text([&] { c(x, {x, stiletto::ones({3})}); },
              "ShapeError: argument 1 (arg1.1) was compiled for shape (2), called with (3); compile with one "
              "like it, or use jit");
  expect_text(
      [&] { c(x, {x}); },
      "ArgumentError: argument 1 was compiled with 2 arrays in it, called with 1; containers have to keep "
      "their sizes");
  expect_text([&] { c(x, {x, Array()}); },
              "ArgumentError: argument 1 (arg1.1) is an empty handle; make the array with zeros, empty, "
              "from_data or wrap");
  auto nested = [](const std::vector<std::vector<Array>>& lists) { return lists[0][0] + lists[1][0]; };
  const auto d = compile(nested, std::vector<std::vector<Array>>{{x, x}, {x}});
  expect_text(
      [&] { d({{x}, {x, x}}); },
      "ArgumentError: argument 0 was compiled with 3 arrays in it, called with 3 in containers of other "
      "sizes; containers have to keep their sizes");
}

// call_checks.cpp: aliases
TEST(CompilerErrorTexts, aliases) {
  const Array x = stiletto::ones({4, 4}), w = stiletto::ones({8});
  auto turned = [](const Array& d, const Array& a) { stiletto::assign(d, stiletto::transpose(a)); };
  auto two = [](const Array& d, const Array& e, const Array& a) {
    stiletto::assign(d, a);
    stiletto::assign(e, a * 2);
  };
  auto totals = [](const Array& d, const Array& a) { stiletto::assign(d, stiletto::softmax(a)); };
  auto part = [](const Array& d, const Array& a) { stiletto::assign(d, a * 2); };
  const Array low = stiletto::slice(w, {Slice{0, 4}}), middle = stiletto::slice(w, {Slice{2, 6}}),
              other = stiletto::zeros({4});
  expect_text([&] { jit(turned, x, x); },
              "AliasError: operation 3, store: the destination arg0 overlaps arg1, which is read at other "
              "places than it is written; nothing was written: store to other memory, or copy() the input");
  expect_text(
      [&] { jit([](const Array& d, const Array& a) { stiletto::matmul_into(d, d, a); }, x, x.copy()); },
      "AliasError: operation 3, store: the destination arg0 is read at other places than it is written; "
      "nothing "
      "was written: store to other memory, or copy() the input");
  expect_text(
      [&] { jit(totals, x, x); },
      "AliasError: operation 3, store: the destination arg0 is the memory of arg1, which is still read by a "
      "product, a reduction or a later operation when it is written; nothing was written: compute in one "
      "call "
      "what another one stores (matmul_into adds a product to its destination), store to other memory, or "
      "copy() the input");
  expect_text([&] { jit(part, low, middle); },
              "AliasError: operation 4, store: the destination arg0 overlaps arg1, which is read at other "
              "places than it is written; nothing was written: store to other memory, or copy() the input");
  expect_text([&] { jit(two, low, middle, other); },
              "AliasError: operation 5, store: the destination arg1 overlaps the destination arg0; nothing "
              "was written: store to disjoint memory");
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(16, 1)) << "nothing was written";
  EXPECT_EQ(w.to_vector<float>(), std::vector<float>(8, 1));
}

TEST(ErrorTexts, results_in_memory_that_is_in_use) {
  const Array x = stiletto::ones({4, 4});
  const stiletto::CompileOptions into_x{
      .allocator = [&](stiletto::Device, const stiletto::Shape&, DType) { return x; }};
  expect_text([&] { jit(into_x, [](const Array& a) { return stiletto::softmax(a); }, x); },
              "AliasError: the result out0 is the memory of arg0, which is still read by a product, a "
              "reduction or a later operation when it is written; nothing was written: have the option "
              "allocator, or Bindings::set, give it memory of its own");
  expect_text(
      [&] { jit(into_x, [](const Array& a) { return stiletto::matmul(a, a); }, x); },
      "AliasError: the result out0 overlaps arg0, which is read at other places than it is written; nothing "
      "was written: have the option allocator, or Bindings::set, give it memory of its own");
  expect_text(
      [&] { jit(into_x, [](const Array& a) { return std::pair(a + 1, a * 2); }, stiletto::zeros({4, 4})); },
      "AliasError: the result out1 overlaps the result out0; nothing was written: have the option allocator, "
      "or Bindings::set, give it memory of its own");
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(16, 1)) << "nothing was written";
}

TEST(ErrorTexts, heuristics_that_are_none) {
  const Array x = stiletto::ones({4});
  expect_text(
      [&] {
        stiletto::compile(
            {.heuristics = {static_cast<stiletto::Heuristic>(7)}}, [](const Array& a) { return a + 1; }, x);
      },
      "ArgumentError: compile: the option heuristics has the value 7, which is no Heuristic; use a, b and "
      "fallback");
}

// eager.cpp: outside a trace there are no arg0 and arg1
TEST(CompilerErrorTexts, aliases_outside_a_trace) {
  const Array x = stiletto::ones({4, 4}), w = stiletto::ones({4, 4});
  expect_text(
      [&] { stiletto::assign(x, stiletto::transpose(x)); },
      "AliasError: assign: the destination of shape (4, 4) with strides (4, 1) overlaps the value, of "
      "shape (4, 4) with strides (1, 4); nothing was written: store to other memory, or copy() what is "
      "read");
  expect_text([&] { stiletto::matmul_into(x, x, w); },
              "AliasError: matmul_into: the destination of shape (4, 4) with strides (4, 1) overlaps an "
              "operand; nothing was written: store to other memory, or copy() what is read");
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(16, 1)) << "nothing was written";
}

// executable.cpp: the allocator's contract
TEST(CompilerErrorTexts, allocators) {
  const Array x = stiletto::ones({2, 3});
  auto refused = [&](const Array& memory) {
    return [&x, memory] {
      const CompileOptions options{
          .allocator = [&](Device, const stiletto::Shape&, DType) { return memory; }};
      jit(options, twice, x);
    };
  };
  expect_text(refused(Array()),
              "ArgumentError: out0: the allocator returned an empty handle; asked for was contiguous "
              "float32(2, 3) on cpu, aligned to 16 bytes");
  expect_text(refused(stiletto::spec({2, 3}, DType::float32)),
              "ArgumentError: out0: the allocator returned an array without memory; asked for was contiguous "
              "float32(2, 3) on cpu, aligned to 16 bytes");
  expect_text(refused(stiletto::ones({6})),
              "ArgumentError: out0: the allocator returned float32(6); asked for was contiguous float32(2, "
              "3) on cpu, aligned to 16 bytes");
  expect_text(refused(stiletto::ones({2, 3}, DType::float64)),
              "ArgumentError: out0: the allocator returned float64(2, 3); asked for was contiguous "
              "float32(2, 3) on cpu, aligned to 16 bytes");
  expect_text(refused(stiletto::transpose(stiletto::ones({3, 2}))),
              "ArgumentError: out0: the allocator returned strides (1, 2); asked for was contiguous "
              "float32(2, 3) on cpu, aligned to 16 bytes");
  expect_text(refused(stiletto::reshape(stiletto::slice(stiletto::ones({7}), {Slice{1, 7}}), {2, 3})),
              "ArgumentError: out0: the allocator returned memory aligned to 4; asked for was contiguous "
              "float32(2, 3) on cpu, aligned to 16 bytes");
}

// tracing.cpp: handles, graphs and bindings
TEST(CompilerErrorTexts, empty_handles) {
  const Array x = stiletto::ones({2});
  const stiletto::Compiled<Array(Array)> none;
  const stiletto::Graph graph;
  stiletto::Bindings bindings;
  expect_text([&] { none(x); },
              "ArgumentError: this Compiled is an empty handle; make it with compile(f, args...)");
  expect_text([&] { none.bindings(x); },
              "ArgumentError: this Compiled is an empty handle; make it with compile(f, args...)");
  expect_text([&] { none.graph(); },
              "ArgumentError: this Compiled is an empty handle; make it with compile(f, args...)");
  expect_text([&] { none.workspace(); },
              "ArgumentError: this Compiled is an empty handle; make it with compile(f, args...)");
  expect_text([&] { graph.to_string(); },
              "ArgumentError: this Graph is an empty handle; take it from a Compiled");
  expect_text([&] { graph.to_dot(); },
              "ArgumentError: this Graph is an empty handle; take it from a Compiled");
  expect_text([&] { graph.to_json(); },
              "ArgumentError: this Graph is an empty handle; take it from a Compiled");
  expect_text([&] { graph.to_html(); },
              "ArgumentError: this Graph is an empty handle; take it from a Compiled");
  expect_text([&] { graph.execute(bindings); },
              "ArgumentError: this Graph is an empty handle; take it from a Compiled");
  expect_text([&] { bindings.get("arg0"); },
              "ArgumentError: bindings: an empty handle; take it from a Compiled with bindings(args...)");
  expect_text([&] { bindings.set("arg0", x); },
              "ArgumentError: bindings: an empty handle; take it from a Compiled with bindings(args...)");
}
TEST(CompilerErrorTexts, bindings) {
  const Array x = stiletto::ones({2, 3});
  const auto c = compile(scaled, x, 2), other = compile(scaled, x, 2);
  auto bound = c.bindings(x, 2);
  stiletto::Bindings& b = bound.bindings;
  const Array odd = stiletto::reshape(stiletto::slice(stiletto::ones({7}), {Slice{1, 7}}), {2, 3});
  expect_text(
      [&] { other.graph().execute(b); },
      "ArgumentError: execute: these bindings belong to another graph; take them from the same Compiled");
  expect_text([&] { b.get("arg1"); },
              "ArgumentError: bindings: no tensor is called arg1; there are: arg0, scalar0, out0");
  expect_text([&] { b.set("weights", x); },
              "ArgumentError: bindings: no tensor is called weights; there are: arg0, scalar0, out0");
  expect_text(
      [&] { b.set("arg0", Array()); },
      "ArgumentError: bindings: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text([&] { b.set("arg0", 1.0); },
              "ArgumentError: bindings: arg0 is float32(2, 3) with strides (3, 1) on cpu; the new memory is "
              "not an array with memory; bind one like it");
  expect_text(
      [&] { b.set("scalar0", x); },
      "ArgumentError: bindings: scalar0 is a number of int32; the new one is not a number; bind one like it");
  expect_text([&] { b.set("scalar0", 1.5); },
              "ArgumentError: bindings: scalar0 is a number of int32; the new one is not a whole number; "
              "bind one like it");
  expect_text([&] { b.set("arg0", stiletto::ones({6})); },
              "ArgumentError: bindings: arg0 is float32(2, 3) with strides (3, 1) on cpu; the new memory is "
              "float32(6); bind one like it");
  expect_text([&] { b.set("arg0", stiletto::transpose(stiletto::ones({3, 2}))); },
              "ArgumentError: bindings: arg0 is float32(2, 3) with strides (3, 1) on cpu; the new memory has "
              "strides (1, 2); bind one like it");
  expect_text([&] { b.set("arg0", odd); },
              "ArgumentError: bindings: arg0 is float32(2, 3) with strides (3, 1) on cpu; the new memory is "
              "aligned to 4 bytes, not 16; bind one like it");
}

TEST(CompilerErrorTexts, numbers_that_bindings_refuse) {
  const Array x = stiletto::ones({2}, DType::int8);
  const auto c = compile(scaled, x, 2);
  auto bound = c.bindings(x, 2);
  expect_text([&] { bound.bindings.set("scalar0", 300); },
              "DTypeError: operation 2, multiply: the number 300 does not fit the array's dtype int8; cast "
              "the array first");
  expect_text(
      [&] { bound.bindings.set("scalar0", 1LL << 40); },
      "ArgumentError: bindings: scalar0 is a number of int32; the new one is 1099511627776, which does "
      "not fit; bind one like it");
  bound.bindings.set("scalar0", 3);
  c.graph().execute(bound.bindings);
  EXPECT_EQ(bound.outputs.to_vector<std::int8_t>(), std::vector<std::int8_t>(2, 3));
}

// cpu_backend.cpp: graphs that no engine takes. The processor and the versions are the machine's.
TEST(CompilerErrorTexts, unsupported_graphs) {
  const Array x = stiletto::ones({3, 4});
  auto text = [&](const CompileOptions& options) {
    try {
      compile(options, [](const Array& a) { return stiletto::sum(a, 1); }, x);
    } catch (const stiletto::UnsupportedGraphError& error) {
      std::string result = error.what();
      for (const std::string& part : {error.target, error.library})
        result.replace(result.find(part), part.size(), "@");
      EXPECT_NE(result.find("; " + error.hint + "\n"), std::string::npos) << result;
      for (const char* before :
           {"needs ", "max_workspace of "})  // workspace depends on the machine's threads
        if (const std::size_t at = result.find(before); at != std::string::npos) {
          const std::size_t begin = at + std::strlen(before);
          result.replace(begin, result.find_first_not_of("0123456789", begin) - begin, "N");
        }
      return result;
    }
    return std::string("nothing was thrown");
  };
  EXPECT_STREQ(
      text({.compute_dtype = DType::float16}).c_str(),
      "no engine takes this graph on @ with @: it accumulates in float32 or float64, not in float16 (option "
      "compute_dtype); leave compute_dtype at float32\n"
      "graph\n"
      "  axes i=3 j=4\n"
      "  compute float16\n"
      "  %0 = arg0: float32[i,j] strides (4, 1)\n"
      "  %1 = sum(%0, over j): float32[i]\n"
      "  %1 -> out0: float32[i] strides (1)\n");
  EXPECT_STREQ(text({.max_workspace = 16}).c_str(),
               "no engine takes this graph on @ with @: it needs N bytes of workspace, max_workspace is 16 "
               "(option max_workspace); allow max_workspace of N\n"
               "graph\n"
               "  axes i=3 j=4\n"
               "  %0 = arg0: float32[i,j] strides (4, 1)\n"
               "  %1 = sum(%0, over j): float32[i]\n"
               "  %1 -> out0: float32[i] strides (1)\n");
}

}  // namespace
