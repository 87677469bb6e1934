// SPDX-License-Identifier: Apache-2.0
// Building and running a compiled trace.
#include "compiler/executable.hpp"

#include <algorithm>

#include "compiler/call_frame.hpp"
#include "compiler/disk_cache.hpp"
#include "compiler/expression_text.hpp"
#include "compiler/graph_html.hpp"
#include "core/device_memory.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

Backend& backend_for(Device device) {
  if (device.is_cpu()) return cpu_backend();
#ifdef STILETTO_HAS_CUDNN
  return cudnn_backend();
#else
  throw_no_backend(device, "compile");
#endif
}

namespace {

void check_options(const CompileOptions& options) {
  auto refuse = [](const char* name, DType dtype, const char* allowed) {
    throw DTypeError(text("compile: ", name, " is ", dtype, "; it has to be ", allowed));
  };
  constexpr const char* floats = "float16, bfloat16, float32 or float64";
  if (options.io_dtype && !is_floating(*options.io_dtype) && !is_float8(*options.io_dtype))
    refuse("io_dtype", *options.io_dtype, "a floating-point dtype");
  if (!is_floating(options.intermediate_dtype))
    refuse("intermediate_dtype", options.intermediate_dtype, floats);
  if (!is_floating(options.compute_dtype)) refuse("compute_dtype", options.compute_dtype, floats);
}

}  // namespace

Device Executable::device_of(const Trace& trace) {
  std::optional<Device> device;
  std::string first;
  auto join = [&](Device next, const std::string& name) {
    if (device && *device != next)
      throw ArgumentError(
          text("compile: ", name, " is on ", next, ", ", first, " on ", *device,
               "; all arrays of a function have to be on one device: move them with .to(device), "
               "and give spec theirs: spec(shape, dtype, {}, device)"));
    if (!device) first = name;
    device = next;
  };
  for (const ArgumentSpec& argument : trace.arguments())
    if (!argument.number) join(argument.device, argument.name());
  for (std::size_t i = 0; i < trace.captures().size(); ++i)
    join(trace.captures()[i].device(), text("capture", i));
  return device.value_or(Device::cpu());
}

std::shared_ptr<const Executable> Executable::build(const Trace& trace, const CompileOptions& options,
                                                    std::span<const Array> examples) {
  check_options(options);
  if (trace.results().empty() && trace.stores().empty())
    throw TraceError(
        "compile: the function returns nothing and stores nothing; return an array, or assign to an "
        "argument");
  trace.verify();
  const auto result = std::make_shared<Executable>();
  Executable& e = *result;
  e.device_ = device_of(trace);
  if (options.target && e.device_.is_cpu())
    throw DeviceError(text("compile: the option target is a GPU, and the arrays are on ", e.device_,
                           "; pass spec(shape, dtype) or arrays on a GPU"));
  const Backend& backend = backend_for(e.device_);
  e.trace_text_ = trace.to_string();
  if (log_enabled(LogTopic::trace)) log(LogTopic::trace, e.trace_text_);
  e.arguments_ = trace.arguments();
  e.structures_ = trace.structures();
  e.captures_ = trace.captures();
  e.numbers_ = trace.scalars();
  e.allocator_ = options.allocator;
  e.lowered_ = canonicalize(trace, options);
  const CanonicalGraph& graph = e.lowered_.graph;
  if (log_enabled(LogTopic::graph)) log(LogTopic::graph, graph.to_string());
  if (!graph.stores.empty())
    e.plan_ = find_or_build_plan(backend, graph, options, e.device_, [&] { return e.trial(examples); });
  e.complete();
  return result;
}

void Executable::complete() {
  const CanonicalGraph& graph = lowered_.graph;
  for (const Tensor& tensor : graph.tensors) tensors_.push_back(footprint_of(tensor));
  for (std::size_t s = 0; s < graph.stores.size(); ++s) {
    stores_.push_back(footprint_of(graph.stores[s].tensor));
    in_place_.emplace_back(graph.tensors.size());
    if (graph.stores[s].tensor.home == Tensor::Home::output) continue;  // never an input's memory
    for (std::size_t t = 0; t < graph.tensors.size(); ++t)
      in_place_[s][t] = reads_at_own_index(graph, t, s) && plan_->allows_in_place(t, s);
  }
  FrameLease()->workspace_of(host_workspace());  // so that the first call need not
}

Trial Executable::trial(std::span<const Array> examples) const {
  std::vector<const Array*> arguments;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (!arguments_[i].number && !examples[i].has_memory())
      throw ArgumentError(text("compile: autotune times plans on the arguments, and ", arguments_[i].name(),
                               " is a spec; pass arrays with memory, or leave autotune off"));
    arguments.push_back(&examples[i]);
  }
  CallFrame frame;
  compute_numbers(arguments, {}, frame);
  Trial trial;
  trial.scalars = frame.slots;
  for (const Tensor& tensor : lowered_.graph.tensors) {
    const Array& array =
        tensor.home == Tensor::Home::argument ? examples[tensor.index] : captures_[tensor.index];
    trial.tensors.push_back(static_cast<std::byte*>(array.raw_data()) +
                            byte_offset(tensor.dtype, tensor.offset));
  }
  for (const Store& store : lowered_.graph.stores) {
    const Footprint f = footprint_of(store.tensor);
    constexpr std::int64_t block = 256;  // as memory is aligned
    const std::int64_t before = (block - 1 - f.low) / block * block;
    trial.scratch.push_back(allocate(device_, before + f.high, "autotune"));
    trial.stores.push_back(static_cast<std::byte*>(trial.scratch.back()->data) + before);
  }
  return trial;
}

Executable::Footprint Executable::footprint_of(const Tensor& tensor) const {
  Footprint f;
  f.dtype = tensor.dtype;
  std::int64_t low = 0, high = 0;
  for (std::size_t axis = 0; axis < lowered_.graph.extents.size(); ++axis) {
    if (!tensor.axes.test(axis)) continue;
    f.extents.push_back(lowered_.graph.extents[axis]);
    f.strides.push_back(tensor.strides[axis]);
    (tensor.strides[axis] < 0 ? low : high) += (f.extents.back() - 1) * tensor.strides[axis];
  }
  f.low = byte_offset(tensor.dtype, low);
  f.high = static_cast<std::int64_t>(bytes_for(tensor.dtype, high + 1));
  return f;
}

// ---- one call ----

void Executable::compute_numbers(std::span<const Array* const> arguments,
                                 std::span<const TraceScalar> numbers, CallFrame& frame) const {
  if (lowered_.scalars.slots.empty() && lowered_.scalars.checks.empty()) return;
  frame.numbers.clear();
  for (const TraceScalar& number : numbers.empty() ? std::span<const TraceScalar>(numbers_) : numbers)
    frame.numbers.push_back(number.value);
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    if (arguments_[i].number)
      frame.numbers[arguments_[i].scalar] = ArrayAccess::body_or_null(*arguments[i])->value;
  lowered_.scalars.evaluate(frame.numbers, frame.steps, frame.slots);
}

void Executable::allocate_outputs(const Allocator& allocator, std::vector<Array>& outputs) const {
  for (std::size_t i = 0; i < lowered_.outputs.size(); ++i) {
    const OutputSpec& spec = lowered_.outputs[i];
    if (!allocator) {
      outputs.push_back(allocate_array(device_, spec.shape, spec.dtype, "output"));
      continue;
    }
    Array memory = allocator(device_, spec.shape, spec.dtype);
    auto refuse = [&](const std::string& what) {
      throw ArgumentError(text("out", i, ": the allocator ", what, "; asked for was contiguous ", spec.dtype,
                               spec.shape, " on ", device_, ", aligned to 16 bytes"));
    };
    if (ArrayAccess::body_or_null(memory) == nullptr) refuse("returned an empty handle");
    if (!memory.has_memory()) refuse("returned an array without memory");
    if (memory.shape() != spec.shape || memory.dtype() != spec.dtype)
      refuse(text("returned ", memory.dtype(), memory.shape()));
    if (memory.device() != device_) refuse(text("returned memory on ", memory.device()));
    if (!memory.is_contiguous()) refuse(text("returned strides ", memory.strides()));
    if (alignment_of(memory.raw_data()) < 16)
      refuse(text("returned memory aligned to ", alignment_of(memory.raw_data())));
    outputs.push_back(std::move(memory));
  }
}

void Executable::collect_results(std::span<const Array* const> arguments, const std::vector<Array>& outputs,
                                 std::vector<Array>& results) const {
  for (const ResultSource& source : lowered_.results) {
    if (source.home == Tensor::Home::output) {
      const Array& memory = outputs[source.index];
      const OutputSpec& spec = lowered_.outputs[source.index];
      results.push_back(memory.strides() == spec.strides
                            ? memory
                            : make_view(*ArrayAccess::body_or_null(memory), spec.shape, spec.strides, 0));
      continue;
    }
    const Array& memory =
        source.home == Tensor::Home::argument ? *arguments[source.index] : captures_[source.index];
    results.push_back(source.whole ? memory
                                   : make_view(*ArrayAccess::body_or_null(memory), source.shape,
                                               source.strides, source.offset));
  }
}

Invocation Executable::resolve(CallFrame& frame, bool check_outputs) const {
  const CanonicalGraph& graph = lowered_.graph;
  auto pointer = [&](const Tensor& tensor) -> void* {
    const auto& home = tensor.home == Tensor::Home::argument  ? frame.arguments
                       : tensor.home == Tensor::Home::capture ? frame.captures
                                                              : frame.outputs;
    return static_cast<std::byte*>(home[tensor.index]) + byte_offset(tensor.dtype, tensor.offset);
  };
  frame.tensors.clear();
  frame.stores.clear();
  for (const Tensor& tensor : graph.tensors) frame.tensors.push_back(pointer(tensor));
  for (const Store& store : graph.stores) frame.stores.push_back(pointer(store.tensor));
  check_aliases(frame, check_outputs);
  return {frame.tensors, frame.stores, frame.slots, frame.workspace_of(host_workspace()), this};
}

void Executable::launch(CallFrame& frame, bool check_outputs) const {
  if (plan_) plan_->execute(resolve(frame, check_outputs));
}

void Executable::run(std::span<const Array* const> arguments, std::span<const TraceScalar> numbers,
                     const Allocator& allocator, std::vector<Array>& results) const {
  check_arguments(arguments);
  const FrameLease frame;
  compute_numbers(arguments, numbers, *frame);
  frame->arguments.clear();
  frame->captures.clear();
  frame->outputs.clear();
  for (const Array* argument : arguments)
    frame->arguments.push_back(ArrayAccess::body_or_null(*argument)->data());
  for (const Array& capture : captures_)
    frame->captures.push_back(ArrayAccess::body_or_null(capture)->data());
  allocate_outputs(allocator, frame->output_arrays);
  for (const Array& output : frame->output_arrays)
    frame->outputs.push_back(ArrayAccess::body_or_null(output)->data());
  launch(*frame, static_cast<bool>(allocator));
  results.reserve(lowered_.results.size());
  collect_results(arguments, frame->output_arrays, results);
}

// ---- bindings ----

Bindings Executable::bind(std::span<const Array* const> arguments, std::vector<Array>& results) const {
  check_arguments(arguments);
  auto table = std::make_shared<BindingTable>();
  table->executable = shared_from_this();
  auto add = [&](std::string name, const Array& memory) {
    table->names.push_back(std::move(name));
    table->memory.push_back(memory);
  };
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].number) continue;
    table->argument_of.push_back(i);
    add(arguments_[i].name(), *arguments[i]);
  }
  table->first_capture = table->names.size();
  for (std::size_t i = 0; i < captures_.size(); ++i) add(text("capture", i), captures_[i]);
  table->first_number = table->names.size();
  CallFrame frame;
  compute_numbers(arguments, {}, frame);
  for (std::size_t i = 0; i < frame.slots.size(); ++i)
    add(text("scalar", i), make_number(frame.slots[i], lowered_.graph.scalars[i], true));
  table->number_bytes.resize(frame.slots.size());
  table->first_output = table->names.size();
  std::vector<Array> outputs;
  allocate_outputs(allocator_, outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) add(text("out", i), outputs[i]);
  collect_results(arguments, outputs, results);
  Bindings bindings;
  bindings.table_ = std::move(table);
  return bindings;
}

void Executable::take_bindings(const BindingTable& table, CallFrame& frame) const {
  auto address = [&](std::size_t i) { return ArrayAccess::body_or_null(table.memory[i])->data(); };
  frame.arguments.assign(arguments_.size(), nullptr);
  frame.captures.clear();
  frame.outputs.clear();
  frame.slots.clear();
  for (std::size_t i = 0; i < table.first_capture; ++i) frame.arguments[table.argument_of[i]] = address(i);
  for (std::size_t i = table.first_capture; i < table.first_number; ++i) frame.captures.push_back(address(i));
  for (std::size_t i = table.first_number; i < table.first_output; ++i)
    frame.slots.push_back(ArrayAccess::body_or_null(table.memory[i])->value);
  for (std::size_t i = table.first_output; i < table.memory.size(); ++i) frame.outputs.push_back(address(i));
}

void Executable::execute(const BindingTable& table) const {
  const FrameLease frame;
  take_bindings(table, *frame);
  launch(*frame, true);
}

// ---- texts ----

std::size_t Executable::bytes() const {
  std::size_t bytes = sizeof(Executable) + trace_text_.size() + workspace();
  for (const Array& capture : captures_) bytes += capture.nbytes();
  return bytes + lowered_.graph.values.size() * sizeof(Value);
}

std::string Executable::expression() const { return expression_text(lowered_.graph, 70); }

std::string Executable::to_string() const {
  return trace_text_ + lowered_.graph.to_string() + "plan\n" + plan_text();
}

std::string Executable::to_html() const {
  return graph_html(lowered_.graph, regions(), text(device_), trace_text_, plan_text());
}

}  // namespace stiletto::detail
