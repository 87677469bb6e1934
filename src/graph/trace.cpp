// SPDX-License-Identifier: Apache-2.0
// Recording. Everything here runs on every jit call, so nothing is looked up or allocated beyond the node
// itself.
#include "graph/trace.hpp"

#include <atomic>
#include <utility>

#include "core/text.hpp"
#include "stiletto/compile.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace {

// Read several times per operation. Eight bytes of the static block, which glibc keeps room for, spare a call
// each.
[[gnu::tls_model("initial-exec")]] thread_local Trace* recording = nullptr;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// The node buffer of the last trace on this thread, kept for the next one. Static destructors may still
/// trace when it is gone, which plain data remembers.
thread_local bool spare_is_gone = false;
struct SpareNodes {
  std::vector<Node> nodes;
  ~SpareNodes() { spare_is_gone = true; }
};
thread_local SpareNodes spare;

}  // namespace

bool tracing() { return recording != nullptr; }

std::string operation_text(const char* name) {
  return recording == nullptr ? name : text("operation ", recording->nodes().size(), ", ", name);
}

std::string ArgumentSpec::name() const {
  return member < 0 ? text("arg", position) : text("arg", position, '.', member);
}

Trace::Trace()
    : id_(next_id()),
      outer_(recording),
      nodes_(spare_is_gone ? std::vector<Node>() : std::move(spare.nodes)) {
  nodes_.clear();
  recording = this;
}

Trace::~Trace() {
  end();
  if (!spare_is_gone) spare.nodes = std::move(nodes_);
}

Trace* Trace::current() { return recording; }

void Trace::end() {
  if (recording_) recording = outer_;
  recording_ = false;
}

std::uint32_t Trace::push(const Node& node) {
  nodes_.push_back(node);
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

Array Trace::handle(std::uint32_t index) const {
  const Node& node = nodes_[index];
  auto body = new_body();
  body->kind = ArrayBody::Kind::traced;
  body->dtype = node.dtype;
  body->weak = node.weak;
  body->scalar = node.scalar;
  body->device = device_;
  body->shape = node.shape;
  body->strides = node.strides;
  body->trace = id_;
  body->node = index;
  return ArrayAccess::make(std::move(body));
}

std::uint32_t Trace::add_scalar(const ArrayBody& body) {
  const auto index = static_cast<std::uint32_t>(scalars_.size());
  scalars_.push_back({body.dtype, body.weak, body.value});
  Node node;
  node.op = Op::scalar;
  node.dtype = node.operand = body.dtype;
  node.weak = body.weak;
  node.scalar = true;
  node.attributes = LeafAttributes{index};
  return push(node);
}

Array Trace::add_argument(const Array& example, int position, int member) {
  ArgumentSpec spec;
  spec.position = position;
  spec.member = member;
  if (ArrayAccess::body_or_null(example) == nullptr)
    throw ArgumentError(text("argument ", position, " (", spec.name(),
                             ") is an empty handle; make the array with zeros, empty, from_data or wrap"));
  const ArrayBody& body = *ArrayAccess::body_or_null(example);
  if (body.kind == ArrayBody::Kind::traced)
    throw TraceError(text("compile: ", spec.name(), " is a traced array of trace ", body.trace,
                          "; compile outside the traced function, or call the function itself inside it"));
  spec.dtype = body.dtype;
  if (body.kind == ArrayBody::Kind::number) {
    spec.number = true;
    spec.scalar = static_cast<std::uint32_t>(scalars_.size());
    arguments_.push_back(spec);
    return handle(add_scalar(body));
  }
  spec.shape = body.shape;
  spec.strides = canonical_strides(body.shape, body.strides);
  spec.device = body.device;
  note_device(body.device);
  spec.alignment = body.kind == ArrayBody::Kind::spec ? 16 : alignment_of(body.data());
  Node node;
  node.op = Op::argument;
  node.dtype = node.operand = body.dtype;
  node.shape = spec.shape;
  node.strides = spec.strides;
  node.attributes = LeafAttributes{static_cast<std::uint32_t>(arguments_.size())};
  arguments_.push_back(spec);
  return handle(push(node));
}

std::uint32_t Trace::add_capture(const ArrayBody& body, const Array& array) {
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    const ArrayBody& other = *ArrayAccess::body_or_null(captures_[i]);
    if (&other == &body ||
        (other.storage == body.storage && other.offset == body.offset && other.dtype == body.dtype &&
         other.shape == body.shape && other.strides == body.strides))
      return capture_nodes_[i];
  }
  Node node;
  node.op = Op::capture;
  node.dtype = node.operand = body.dtype;
  node.shape = body.shape;
  node.strides = canonical_strides(body.shape, body.strides);
  node.attributes = LeafAttributes{static_cast<std::uint32_t>(captures_.size())};
  captures_.push_back(array);
  note_device(body.device);
  capture_nodes_.push_back(push(node));
  return capture_nodes_.back();
}

std::uint32_t Trace::import(const Array& array, const char* operation) {
  const ArrayBody& body = ArrayAccess::body(array, operation);
  switch (body.kind) {
    case ArrayBody::Kind::traced:
      if (body.trace != id_)
        throw TraceError(
            text(operation_text(operation), ": an operand belongs to trace ", body.trace, ", this is trace ",
                 id_, "; a traced array is only usable inside the call that made it: return it from there"));
      return body.node;
    case ArrayBody::Kind::number:
      return add_scalar(body);
    case ArrayBody::Kind::concrete:
      return add_capture(body, array);
    case ArrayBody::Kind::spec:
      break;
  }
  throw TraceError(text(operation_text(operation), ": a spec (", body.dtype, body.shape,
                        ") has no memory to capture; pass it as an argument"));
}

std::uint32_t Trace::root_of(std::uint32_t node) const {
  return nodes_[node].op == Op::view ? nodes_[node].inputs[0] : node;
}

std::int64_t Trace::offset_of(std::uint32_t node) const {
  return nodes_[node].op == Op::view ? std::get<ViewAttributes>(nodes_[node].attributes).offset : 0;
}

Reach Trace::bounds_of(std::uint32_t node) const {
  const Node& root = nodes_[root_of(node)];
  if (root.op == Op::capture) {  // known by identity, so its whole storage is
    const ArrayBody& body =
        *ArrayAccess::body_or_null(captures_[std::get<LeafAttributes>(root.attributes).index]);
    const std::int64_t elements = body.storage->bytes * 8 / bits_of(body.dtype);
    return {-body.offset, elements - 1 - body.offset};
  }
  // Another call's argument may lie in a smaller storage: only what the argument itself spans is sure to be
  // there.
  return reach_of(root.shape, root.strides, "view");
}

void Trace::check_not_stored(std::uint32_t node, const char* operation) const {
  if (stores_.empty() || !is_leaf_or_view(node)) return;
  const std::uint32_t root = root_of(node);
  auto storage = [&](std::uint32_t leaf) -> const Storage* {
    if (nodes_[leaf].op != Op::capture) return nullptr;
    return ArrayAccess::body_or_null(captures_[std::get<LeafAttributes>(nodes_[leaf].attributes).index])
        ->storage.get();
  };
  for (const TraceStore& store : stores_) {
    const std::uint32_t stored = root_of(store.destination);
    if (stored != root && (storage(root) == nullptr || storage(stored) != storage(root))) continue;
    const std::uint32_t index = std::get<LeafAttributes>(nodes_[root].attributes).index;
    throw TraceError(text(
        operation_text(operation), ": reads ",
        nodes_[root].op == Op::argument ? arguments_[index].name() : text("capture", index),
        " after the trace stored to it; use the value that was stored, or compute this before the store"));
  }
}

Array Trace::record(const Node& node, const char* operation) {
  for (std::uint32_t input : node.operands()) check_not_stored(input, operation);
  return handle(push(node));
}

Array Trace::record_view(std::uint32_t of, Shape shape, Strides strides, std::int64_t offset) {
  Node node;
  node.op = Op::view;
  node.dtype = node.operand = nodes_[of].dtype;
  node.shape = shape;
  node.strides = canonical_strides(shape, strides);
  node.arity = 1;
  node.inputs[0] = root_of(of);
  node.attributes = ViewAttributes{offset_of(of) + offset};
  return handle(push(node));
}

void Trace::record_store(std::uint32_t destination, std::uint32_t value) {
  stores_.push_back({destination, value, static_cast<std::uint32_t>(nodes_.size())});
}

void Trace::add_result(const Array& array) {
  if (ArrayAccess::body_or_null(array) == nullptr)
    throw ArgumentError(text("return: result ", results_.size(),
                             " is an empty handle; assign an array to it, or leave it out"));
  results_.push_back(import(array, "return"));
}

}  // namespace stiletto::detail
