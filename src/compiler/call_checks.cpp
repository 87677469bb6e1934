// SPDX-License-Identifier: Apache-2.0
// What a call has to satisfy before anything is written: arguments as compiled, and no destination over an
// input that is still to be read.
#include <algorithm>

#include "compiler/call_frame.hpp"
#include "compiler/executable.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace {

void check_number(const ArgumentSpec& spec, const ArrayBody& body) {
  if (body.kind != ArrayBody::Kind::number)
    throw ArgumentError(text("argument ", spec.position, " (", spec.name(), ") was compiled as a number (",
                             spec.dtype, "), called with an array ", body.dtype, body.shape,
                             "; pass item(), or compile with an array"));
  const bool same = body.dtype == spec.dtype;
  const bool widens = body.weak && !is_integer(spec.dtype) && spec.dtype != DType::boolean;
  const bool integers =
      body.weak && is_integer(spec.dtype) && is_integer(body.dtype) && fits(body.value, spec.dtype);
  if (!same && !widens && !integers)
    throw DTypeError(text("argument ", spec.position, " (", spec.name(), ") was compiled as a number of ",
                          spec.dtype, ", called with one of ", body.dtype,
                          "; convert it, or compile with one like it"));
}

void check_array(const ArgumentSpec& spec, const ArrayBody& body) {
  auto where = [&] { return text("argument ", spec.position, " (", spec.name(), ")"); };
  if (body.kind == ArrayBody::Kind::traced)
    throw TraceError(text(where(), ": a compiled function takes memory, and this array belongs to trace ",
                          body.trace, "; inside a trace call the function itself, or jit it"));
  if (body.kind == ArrayBody::Kind::spec)
    throw TraceError(text(where(), ": a spec has no memory to run on; pass an array"));
  if (body.dtype != spec.dtype)
    throw DTypeError(text(where(), " was compiled for ", spec.dtype, spec.shape, ", called with ", body.dtype,
                          body.shape, "; cast it, or compile with one like it"));
  if (body.shape != spec.shape)
    throw ShapeError(text(where(), " was compiled for shape ", spec.shape, ", called with ", body.shape,
                          "; compile with one like it, or use jit"));
  if (body.kind == ArrayBody::Kind::number)
    throw ArgumentError(
        text(where(), " was compiled as an array, called with a number; wrap it with full({}, value)"));
  if (body.device != spec.device)
    throw ArgumentError(text(where(), " was compiled for ", spec.device, ", called with memory on ",
                             body.device, "; compile with one like it, or use jit"));
  if (body.strides != spec.strides && canonical_strides(body.shape, body.strides) != spec.strides)
    throw ArgumentError(text(where(), " was compiled for strides ", spec.strides, ", called with ",
                             body.strides, "; copy() makes an array row-major"));
  if (spec.alignment > 1 && alignment_of(body.data()) < spec.alignment)
    throw ArgumentError(text(where(), " was compiled for memory aligned to ", spec.alignment,
                             " bytes, called with ", alignment_of(body.data()), "; copy() aligns it"));
}

bool is_result(const Store& store) { return store.tensor.home == Tensor::Home::output; }

/// A store as printed traces have it; results have no place there.
std::string name_of(const Store& store) {
  return is_result(store)
             ? text("the result ", store.tensor.name)
             : text("operation ", store.trace_position, ", store: the destination ", store.tensor.name);
}

/// Who gave a result memory that meets another's.
std::string remedy(const Store& store, const std::string& otherwise) {
  return is_result(store)
             ? "nothing was written: have the option allocator, or Bindings::set, give it memory "
               "of its own"
             : "nothing was written: " + otherwise;
}

}  // namespace

void Executable::check_structure(const ArgumentList& list) const {
  for (std::size_t position = 0; position < structures_.size(); ++position) {
    const Structure& compiled = structures_[position];
    const Structure& called = list.structure(position);
    if (called == compiled) continue;
    throw ArgumentError(text("argument ", position, " was compiled with ", compiled.arrays,
                             " arrays in it, called with ", called.arrays,
                             called.arrays == compiled.arrays ? " in containers of other sizes" : "",
                             "; containers have to keep their sizes"));
  }
}

void Executable::check_arguments(std::span<const Array* const> arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ArrayBody* body = ArrayAccess::body_or_null(*arguments[i]);
    if (body == nullptr)
      throw ArgumentError(text("argument ", arguments_[i].position, " (", arguments_[i].name(),
                               ") is an empty handle; make the array with zeros, empty, from_data or wrap"));
    if (arguments_[i].number)
      check_number(arguments_[i], *body);
    else
      check_array(arguments_[i], *body);
  }
}

void Executable::check_aliases(const CallFrame& frame, bool outputs_too) const {
  const CanonicalGraph& graph = lowered_.graph;
  auto ranges_cross = [](const Footprint& a, const void* pa, const Footprint& b, const void* pb) {
    const auto ia = reinterpret_cast<std::intptr_t>(pa), ib = reinterpret_cast<std::intptr_t>(pb);
    return ia + a.high > ib + b.low && ib + b.high > ia + a.low;
  };
  auto elements_meet = [](const Footprint& a, const void* pa, const Footprint& b, const void* pb) {
    const std::int64_t distance = reinterpret_cast<std::intptr_t>(pb) - reinterpret_cast<std::intptr_t>(pa);
    const std::int64_t size = bits_of(a.dtype) / 8;
    if (a.dtype != b.dtype || size == 0 || distance % size != 0) return true;
    return may_overlap({a.extents, a.strides, 0}, {b.extents, b.strides, distance / size});
  };
  for (std::size_t s = 0; s < graph.stores.size(); ++s) {
    const Tensor& store = graph.stores[s].tensor;
    if (store.home == Tensor::Home::output && !outputs_too) continue;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      if (!ranges_cross(stores_[s], frame.stores[s], tensors_[t], frame.tensors[t])) continue;
      const Tensor& tensor = graph.tensors[t];
      const bool same = frame.stores[s] == frame.tensors[t] && store.dtype == tensor.dtype &&
                        store.axes == tensor.axes && store.strides == tensor.strides;
      if (same && in_place_[s][t]) continue;
      if (!elements_meet(stores_[s], frame.stores[s], tensors_[t], frame.tensors[t])) continue;
      const std::string store = name_of(graph.stores[s]);
      const bool itself = graph.stores[s].tensor.name == tensor.name;
      if (same)
        throw AliasError(text(store, itself ? "" : text(" is the memory of ", tensor.name, ", which"),
                              " is still read by a product, a reduction or a later operation when it is "
                              "written; ",
                              remedy(graph.stores[s],
                                     "compute in one call what another one stores (matmul_into adds a "
                                     "product to its destination), store to other memory, or copy() the "
                                     "input")));
      throw AliasError(text(store, itself ? "" : text(" overlaps ", tensor.name, ", which"),
                            " is read at other places than it is written; ",
                            remedy(graph.stores[s], "store to other memory, or copy() the input")));
    }
    for (std::size_t other = 0; other < s; ++other) {
      if (graph.stores[other].tensor.home == Tensor::Home::output && !outputs_too) continue;
      if (ranges_cross(stores_[s], frame.stores[s], stores_[other], frame.stores[other]) &&
          elements_meet(stores_[s], frame.stores[s], stores_[other], frame.stores[other]))
        throw AliasError(text(name_of(graph.stores[s]), " overlaps ",
                              is_result(graph.stores[other]) ? "the result " : "the destination ",
                              graph.stores[other].tensor.name, "; ",
                              remedy(graph.stores[s], "store to disjoint memory")));
    }
  }
}

}  // namespace stiletto::detail
