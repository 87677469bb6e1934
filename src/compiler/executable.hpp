// SPDX-License-Identifier: Apache-2.0
// A compiled trace: what a call is checked against, how its numbers are computed, and the plan that runs.
// Immutable; any thread may run it.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/backend.hpp"
#include "compiler/canonicalize.hpp"
#include "graph/trace.hpp"
#include "stiletto/compile.hpp"

namespace stiletto::detail {

struct CallFrame;

class Executable : public std::enable_shared_from_this<Executable> {
 public:
  /// The one device of a trace's arrays, the CPU without any; ArgumentError where there are several.
  static Device device_of(const Trace& trace);
  /// Lowers the trace and builds its plan.
  /// `examples`: the arrays and numbers it was traced with, where plans are to be timed on them.
  static std::shared_ptr<const Executable> build(const Trace& trace, const CompileOptions& options,
                                                 std::span<const Array> examples);

  /// `sizes`: of the containers in the result, in order. ArgumentError where arrays are captured or the file
  /// cannot be written.
  void save(const std::filesystem::path& path, const std::vector<std::uint64_t>& sizes) const;
  /// What save() wrote. ArgumentError where the file is not a whole plan of this Stiletto, DeviceError where
  /// it is for another GPU or library.
  static std::shared_ptr<const Executable> load(const std::filesystem::path& path, const Allocator& allocator,
                                                std::vector<std::uint64_t>& sizes);
  /// Refuses a signature with other numbers of arguments or of arrays in the result.
  void check_signature(const std::filesystem::path& path, std::size_t arguments, std::size_t results) const;

  /// What takes the place of a trace where there was none.
  struct Parts {
    std::string text;  // what to_string() begins with
    std::vector<ArgumentSpec> arguments;
    Lowered lowered;
    std::unique_ptr<const Plan> plan;
    Device device = Device::cpu();
  };
  static std::shared_ptr<const Executable> assemble(Parts parts);

  /// `numbers` are the trace's, or empty: then those of compile time, with the arguments' in place.
  void run(std::span<const Array* const> arguments, std::span<const TraceScalar> numbers,
           const Allocator& allocator, std::vector<Array>& results) const;
  Bindings bind(std::span<const Array* const> arguments, std::vector<Array>& results) const;
  void execute(const BindingTable& table) const;
  /// What Plan::native_graph() is executed with, after the checks of execute(); numbers are the table's.
  NativePack native_pack(BindingTable& table) const;
  /// Refuses a number that does not fit where the graph uses it.
  void check_bound_number(std::size_t slot, const ScalarValue& number) const {
    lowered_.scalars.check_slot(slot, number);
  }
  /// Whether the arrays of a call lie in containers like those of compile time: what jit's trace shows by
  /// itself.
  void check_structure(const ArgumentList& list) const;

  static Graph handle(std::shared_ptr<const Executable> executable);
  /// What the public handles hold. ArgumentError, beginning with the operation, for empty ones.
  static std::shared_ptr<const Executable> of(const Graph& graph, const char* operation);
  static BindingTable& of(const Bindings& bindings, const char* operation);
  /// Bindings of this graph; ArgumentError for others.
  BindingTable& own(const Bindings& bindings, const char* operation) const;
  const Plan* plan() const { return plan_.get(); }  // null when there is nothing to compute
  const Allocator& allocator() const { return allocator_; }
  std::size_t workspace() const { return plan_ ? plan_->workspace() : 0; }
  std::size_t bytes() const;  // plan, captures kept alive, workspace: an estimate for the cache's statistics
  std::string to_html() const;
  std::string expression() const;  // what it computes, shortened
  std::string to_string() const;
  std::string to_dot() const { return lowered_.graph.to_dot(regions()); }
  std::string to_json() const { return lowered_.graph.to_json(); }
  Device device() const { return device_; }

 private:
  void write(const std::filesystem::path& path, const std::vector<std::uint64_t>& sizes) const;
  std::string plan_text() const { return plan_ ? plan_->describe() : "  nothing to compute\n"; }
  std::vector<Region> regions() const {
    return plan_ ? plan_->regions(lowered_.graph) : std::vector<Region>{};
  }
  /// One store and what it may meet: extents and strides of the axes that move, and its bytes around the
  /// first element.
  struct Footprint {
    std::vector<std::int64_t> extents, strides;
    std::int64_t low = 0, high = 0;  // bytes, high exclusive
    DType dtype = DType::float32;
  };
  Trial trial(std::span<const Array> examples) const;
  /// Fills in what follows from the graph and its plan.
  void complete();
  Footprint footprint_of(const Tensor& tensor) const;
  void check_arguments(std::span<const Array* const> arguments) const;
  void check_aliases(const CallFrame& frame, bool outputs_too) const;
  void compute_numbers(std::span<const Array* const> arguments, std::span<const TraceScalar> numbers,
                       CallFrame& frame) const;
  void allocate_outputs(const Allocator& allocator, std::vector<Array>& outputs) const;
  void collect_results(std::span<const Array* const> arguments, const std::vector<Array>& outputs,
                       std::vector<Array>& results) const;
  /// The memory and numbers of bindings.
  void take_bindings(const BindingTable& table, CallFrame& frame) const;
  /// Resolves the graph's pointers and checks them; `frame` holds the memory of arguments and outputs.
  Invocation resolve(CallFrame& frame, bool check_outputs) const;
  void launch(CallFrame& frame, bool check_outputs) const;
  /// A plan on a GPU takes its workspace itself, from the stream it runs on.
  std::size_t host_workspace() const { return device_.is_cuda() ? 0 : workspace(); }

  std::string trace_text_;
  std::vector<ArgumentSpec> arguments_;
  std::vector<Structure> structures_;  // per top-level argument
  std::vector<Array> captures_;
  std::vector<TraceScalar> numbers_;
  Lowered lowered_;
  std::unique_ptr<const Plan> plan_;  // null when there is nothing to compute
  std::vector<Footprint> tensors_, stores_;
  std::vector<std::vector<bool>> in_place_;  // [store][tensor]: may be the same memory
  Device device_ = Device::cpu();
  Allocator allocator_;
};

struct BindingTable {
  std::shared_ptr<const Executable> executable;
  std::vector<std::string> names;
  std::vector<Array> memory;  // per name: arguments, captures, numbers, outputs
  std::size_t first_capture = 0, first_number = 0, first_output = 0;
  std::vector<std::size_t> argument_of;     // argument position of each of the first names
  std::vector<std::uint64_t> number_bytes;  // of native_pack(), 8 per number
};

/// The backend of a device; DeviceError where there is none.
Backend& backend_for(Device device);

}  // namespace stiletto::detail
