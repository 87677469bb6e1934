// SPDX-License-Identifier: Apache-2.0
// The trace: what one call of a user's function did, as a list of nodes that name earlier nodes by index. One
// trace at a time records on a thread; traces nest (compile inside a traced function) as a stack.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/array_body.hpp"
#include "core/dtype_info.hpp"
#include "graph/attributes.hpp"
#include "graph/op_table.hpp"
#include "stiletto/compile.hpp"

namespace stiletto::detail {

struct Node {
  Op op = Op::copy;
  DType dtype = DType::float32;
  DType operand = DType::float32;  // the type in which a pointwise operation takes its operands
  bool weak = false;               // typed like a C++ number
  bool scalar = false;             // a number, or arithmetic among numbers: done on the host
  bool final_only = false;         // permuted or reshaped: may only be returned or stored
  std::uint8_t arity = 0;
  std::array<std::uint32_t, max_operands> inputs{};
  Shape shape;
  Strides strides;  // memory order of a leaf, a view or what an output would have
  Attributes attributes;

  OperandType type() const { return {dtype, weak}; }
  std::span<const std::uint32_t> operands() const { return {inputs.data(), arity}; }
};

/// An array argument as it was at trace time; a call is checked against this.
struct ArgumentSpec {
  Shape shape;
  Strides strides;  // canonical
  DType dtype = DType::float32;
  Device device = Device::cpu();
  int alignment = 16;
  bool number = false;       // a C++ number, bound by value
  std::uint32_t scalar = 0;  // number: its place among the trace's scalars
  int position = 0, member = -1;

  std::string name() const;  // "arg1", "arg1.0"
};

struct TraceScalar {
  DType dtype = DType::float32;
  bool weak = false;
  ScalarValue value;
};

struct TraceStore {
  std::uint32_t destination, value;  // an argument, capture or view; any node
  std::uint32_t position;            // nodes recorded before it
};

class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The trace that records on this thread, or null.
  static Trace* current();
  /// Stops recording; the nodes stay readable.
  void end();

  std::uint64_t id() const { return id_; }
  Array add_argument(const Array& example, int position, int member);
  /// The node of an operand: traced here, a number, or a concrete array that becomes a capture.
  void add_structure(const Structure& structure) { structures_.push_back(structure); }
  std::uint32_t import(const Array& array, const char* operation);
  Array record(const Node& node, const char* operation);
  /// A view of a leaf or view; composes. `offset` is relative to the viewed node's first element.
  Array record_view(std::uint32_t of, Shape shape, Strides strides, std::int64_t offset);
  void record_store(std::uint32_t destination, std::uint32_t value);
  /// Of what lies behind a block-scaled array, and is written whole or not at all.
  void mark_block_part(std::uint32_t node) { block_parts_.push_back(root_of(node)); }
  bool is_block_part(std::uint32_t node) const {
    return std::find(block_parts_.begin(), block_parts_.end(), root_of(node)) != block_parts_.end();
  }
  void add_result(const Array& array);

  /// Throws TraceError when `node` reads a buffer that the trace has stored to.
  void check_not_stored(std::uint32_t node, const char* operation) const;
  /// The argument or capture under a leaf or view, or the node itself.
  std::uint32_t root_of(std::uint32_t node) const;
  bool is_leaf_or_view(std::uint32_t node) const {
    return nodes_[node].op <= Op::view && nodes_[node].op != Op::scalar;
  }
  /// Elements from the root's first element to the node's.
  std::int64_t offset_of(std::uint32_t node) const;
  /// The elements a view of this node may reach, relative to its root's first element.
  Reach bounds_of(std::uint32_t node) const;

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ArgumentSpec>& arguments() const { return arguments_; }
  /// Of each top-level argument.
  const std::vector<Structure>& structures() const { return structures_; }
  const std::vector<Array>& captures() const { return captures_; }
  const std::vector<TraceScalar>& scalars() const { return scalars_; }
  const std::vector<TraceStore>& stores() const { return stores_; }
  const std::vector<std::uint32_t>& results() const { return results_; }
  /// Throws InternalError when an invariant of the above is broken.
  void verify() const;
  std::string to_string() const;

 private:
  std::uint32_t add_capture(const ArrayBody& body, const Array& array);
  std::uint32_t push(const Node& node);
  Array handle(std::uint32_t node) const;
  std::uint32_t add_scalar(const ArrayBody& body);
  void note_device(Device device) {
    if (!has_device_) device_ = device;
    has_device_ = true;
  }

  std::uint64_t id_;
  Trace* outer_;
  bool recording_ = true;
  Device device_ = Device::cpu();  // of the first array that came in
  bool has_device_ = false;
  std::vector<Node> nodes_;
  std::vector<ArgumentSpec> arguments_;
  std::vector<Structure> structures_;
  std::vector<Array> captures_;
  std::vector<std::uint32_t> capture_nodes_;
  std::vector<TraceScalar> scalars_;
  std::vector<TraceStore> stores_;
  std::vector<std::uint32_t> results_;
  std::vector<std::uint32_t> block_parts_;  // leaves
};

}  // namespace stiletto::detail
