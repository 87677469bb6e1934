// SPDX-License-Identifier: Apache-2.0
// The non-template side of compile and jit, and the public handles Graph and Bindings.
#include <algorithm>

#include "compiler/executable.hpp"
#include "compiler/plan_cache.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

struct Tracing::State {
  Trace trace;
  const CompileOptions& options;
  std::vector<Array> examples;  // where plans are timed on them
};

Tracing::Tracing(const CompileOptions& options) : state_(new State{{}, options, {}}) {}
Tracing::~Tracing() = default;

Array Tracing::argument(const Array& example, int position, int member) {
  if (state_->options.autotune == Autotune::on) state_->examples.push_back(example);
  return state_->trace.add_argument(example, position, member);
}
void Tracing::structure(const Structure& structure) { state_->trace.add_structure(structure); }
void Tracing::result(const Array& value) { state_->trace.add_result(value); }

std::uint64_t Tracing::key() const { return hash_of(state_->trace, state_->options); }

std::shared_ptr<const Executable> Tracing::compile() {
  state_->trace.end();
  return Executable::build(state_->trace, state_->options, state_->examples);
}
std::shared_ptr<const Executable> Tracing::find_or_compile() {
  state_->trace.end();
  return find_or_build(state_->trace, state_->options, state_->examples);
}
void Tracing::run(const Executable& executable, const ArgumentList& arguments, const Allocator& allocator,
                  std::vector<Array>& outputs) {
  executable.run(arguments.arrays(), state_->trace.scalars(), allocator, outputs);
}

void run(const Executable& executable, const ArgumentList& arguments, std::vector<Array>& outputs) {
  executable.check_structure(arguments);
  executable.run(arguments.arrays(), {}, executable.allocator(), outputs);
}
void save(const Executable& executable, const std::filesystem::path& path,
          const std::vector<std::uint64_t>& sizes) {
  executable.save(path, sizes);
}
std::shared_ptr<const Executable> load(const std::filesystem::path& path, const Allocator& allocator,
                                       std::vector<std::uint64_t>& sizes) {
  return Executable::load(path, allocator, sizes);
}
void check_signature(const Executable& executable, const std::filesystem::path& path, std::size_t arguments,
                     std::size_t results) {
  executable.check_signature(path, arguments, results);
}
std::size_t workspace_of(const Executable& executable) { return executable.workspace(); }
Bindings bind(const Executable& executable, const ArgumentList& arguments, std::vector<Array>& outputs) {
  executable.check_structure(arguments);
  return executable.bind(arguments.arrays(), outputs);
}
void throw_not_compiled() {
  throw ArgumentError("this Compiled is an empty handle; make it with compile(f, args...)");
}

}  // namespace stiletto::detail

namespace stiletto {

using detail::ArrayAccess;
using detail::ArrayBody;
using detail::text;

namespace {

const detail::Executable& built(const std::shared_ptr<const detail::Executable>& executable) {
  if (!executable) throw ArgumentError("this Graph is an empty handle; take it from a Compiled");
  return *executable;
}

}  // namespace

void Graph::execute(const Bindings& bindings) const {
  const detail::Executable& executable = built(executable_);
  executable.execute(executable.own(bindings, "execute"));
}
std::string Graph::to_string() const { return built(executable_).to_string(); }
std::string Graph::to_dot() const { return built(executable_).to_dot(); }
std::string Graph::to_json() const { return built(executable_).to_json(); }
std::string Graph::to_html() const { return built(executable_).to_html(); }

std::vector<std::string> Bindings::names() const {
  return table_ ? table_->names : std::vector<std::string>{};
}

namespace {

std::size_t position_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  if (names.empty())
    throw ArgumentError("bindings: an empty handle; take it from a Compiled with bindings(args...)");
  throw ArgumentError(text("bindings: no tensor is called ", name, "; there are: ", known));
}

}  // namespace

Array Bindings::get(const std::string& name) const {
  const std::size_t position = position_of(names(), name);
  return table_->memory[position];
}

void Bindings::set(const std::string& name, const Array& memory) {
  const std::size_t position = position_of(names(), name);
  Array& bound = table_->memory[position];
  const ArrayBody& old = *ArrayAccess::body_or_null(bound);
  const ArrayBody& body = ArrayAccess::body(memory, "bindings");
  const bool number = old.kind == ArrayBody::Kind::number;
  auto refuse = [&](const std::string& what) {
    const std::string there = number ? text("a number of ", old.dtype, "; the new one ")
                                     : text(old.dtype, old.shape, " with strides ", old.strides, " on ",
                                            old.device, "; the new memory ");
    throw ArgumentError(text("bindings: ", name, " is ", there, what, "; bind one like it"));
  };
  if (body.kind != old.kind) refuse(number ? "is not a number" : "is not an array with memory");
  if (number) {
    if (detail::is_integer(old.dtype) && body.value.kind == detail::ScalarValue::Kind::real)
      refuse("is not a whole number");
    if (!detail::fits(body.value, old.dtype)) refuse(text("is ", body.value.integer, ", which does not fit"));
    table_->executable->check_bound_number(position - table_->first_number, body.value);
    bound = memory;
    return;
  }
  if (body.dtype != old.dtype || body.shape != old.shape) refuse(text("is ", body.dtype, body.shape));
  if (detail::canonical_strides(body.shape, body.strides) !=
      detail::canonical_strides(old.shape, old.strides))
    refuse(text("has strides ", body.strides));
  if (body.device != old.device) refuse(text("is on ", body.device));
  if (detail::alignment_of(body.data()) < detail::alignment_of(old.data()))
    refuse(text("is aligned to ", detail::alignment_of(body.data()), " bytes, not ",
                detail::alignment_of(old.data())));
  bound = memory;
}

namespace detail {

Graph Executable::handle(std::shared_ptr<const Executable> executable) {
  Graph graph;
  graph.executable_ = std::move(executable);
  return graph;
}
std::shared_ptr<const Executable> Executable::of(const Graph& graph, const char* operation) {
  if (!graph.executable_)
    throw ArgumentError(text(operation, ": this Graph is an empty handle; take it from a Compiled"));
  return graph.executable_;
}
BindingTable& Executable::of(const Bindings& bindings, const char* operation) {
  if (!bindings.table_)
    throw ArgumentError(text(operation,
                             ": these Bindings are an empty handle; take them from a Compiled with ",
                             "bindings(args...)"));
  return *bindings.table_;
}
BindingTable& Executable::own(const Bindings& bindings, const char* operation) const {
  if (!bindings.table_ || bindings.table_->executable.get() != this)
    throw ArgumentError(
        text(operation, ": these bindings belong to another graph; take them from the same Compiled"));
  return *bindings.table_;
}
Graph graph_of(std::shared_ptr<const Executable> executable) {
  return Executable::handle(std::move(executable));
}

}  // namespace detail

}  // namespace stiletto
