// SPDX-License-Identifier: Apache-2.0
// Operations on concrete arrays outside a trace: each is a jit call of one operation, so that it goes through
// the same rules, the same cache and the same backend as everything else.
#include "core/text.hpp"
#include "ops/apply.hpp"
#include "ops/structured.hpp"
#include "stiletto/compile.hpp"
#include "stiletto/error.hpp"
#include "stiletto/nn.hpp"
#include "stiletto/ops.hpp"

namespace stiletto::detail {
namespace {

Array eager_apply(Op op, std::span<const Array* const> operands, const Attributes& attributes) {
  switch (operands.size()) {
    case 1:
      return jit([&](const Array& x) { return apply(op, {&x}, attributes); }, *operands[0]);
    case 2:
      return jit([&](const Array& a, const Array& b) { return apply(op, {&a, &b}, attributes); },
                 *operands[0], *operands[1]);
    default:
      return jit(
          [&](const Array& a, const Array& b, const Array& c) { return apply(op, {&a, &b, &c}, attributes); },
          *operands[0], *operands[1], *operands[2]);
  }
}

Array eager_cast(Op op, const Array& x, DType dtype) {
  return jit([&](const Array& a) { return apply_cast(op, a, dtype); }, x);
}

/// The trace behind an eager store speaks of arg0 and arg1, which its caller never named.
[[noreturn]] void throw_overlap(const char* name, const Array& destination, const std::string& read) {
  throw AliasError(text(name, ": the destination of shape ", destination.shape(), " with strides ",
                        destination.strides(), " overlaps ", read,
                        "; nothing was written: store to other memory, or copy() what is read"));
}

void eager_assign(const Array& destination, const Array& value) {
  try {
    jit([](const Array& to, const Array& v) { stiletto::assign(to, v); }, destination, value);
  } catch (const AliasError&) {
    throw_overlap("assign", destination,
                  text("the value, of shape ", value.shape(), " with strides ", value.strides()));
  }
}

void eager_matmul_into(const Array& c, const Array& a, const Array& b, double alpha, double beta) {
  try {
    jit([&](const Array& to, const Array& x,
            const Array& y) { stiletto::matmul_into(to, x, y, alpha, beta); },
        c, a, b);
  } catch (const AliasError&) {
    throw_overlap("matmul_into", c, "an operand");
  }
}

std::vector<Array> eager_structured(const StructuredCall& call, std::size_t wanted) {
  const auto existing = [&](const std::vector<Array>& operands) {
    std::vector<Array> made = record(call, operands, wanted), existing;
    for (std::size_t i = 0; i < made.size(); ++i)
      if (call.results[i].exists) existing.push_back(made[i]);
    return existing;
  };
  const std::vector<Array> made = jit(existing, call.operands);
  std::vector<Array> results(wanted);
  for (std::size_t i = 0, next = 0; i < wanted; ++i)
    if (call.results[i].exists) results[i] = made[next++];
  return results;
}

void eager_structured_into(const StructuredCall& call, const std::vector<Array>& destinations) {
  try {
    jit([&](const std::vector<Array>& to,
            const std::vector<Array>& operands) { record_into(call, operands, to); },
        destinations, call.operands);
  } catch (const AliasError&) {
    throw_overlap(call.name, destinations[0], "an operand or another destination");
  }
}

}  // namespace

EagerTable make_eager_table() {
  return {eager_apply, eager_cast, eager_assign, eager_matmul_into, eager_structured, eager_structured_into};
}

}  // namespace stiletto::detail
