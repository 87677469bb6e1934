// SPDX-License-Identifier: Apache-2.0
// The seam between the compiler and a backend: a canonical graph goes in, a plan comes out, and a plan is
// executed on pointers. A backend is stateless as far as callers can see; a plan is immutable and may be
// executed from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/canonical.hpp"
#include "core/archive.hpp"
#include "core/array_body.hpp"
#include "stiletto/compile.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

class Executable;

struct PlanOptions {
  std::optional<std::size_t> max_workspace;
  bool deterministic = false;
  std::vector<Heuristic> heuristics;  // as given; empty: the default
  Autotune autotune = Autotune::off;
  std::optional<Target> target;
  explicit PlanOptions(const CompileOptions& options)
      : max_workspace(options.max_workspace),
        deterministic(options.deterministic),
        heuristics(options.heuristics),
        autotune(options.autotune),
        target(options.target) {
    for (const Heuristic heuristic : heuristics)
      if (heuristic > Heuristic::fallback)
        throw ArgumentError("compile: the option heuristics has the value " +
                            std::to_string(static_cast<int>(heuristic)) +
                            ", which is no Heuristic; use a, b and fallback");
  }
  bool operator==(const PlanOptions&) const = default;
};

/// One execution: element pointers of graph.tensors and graph.stores (offsets applied), the numbers, and
/// scratch, which a GPU's backend finds itself.
struct Invocation {
  std::span<void* const> tensors;
  std::span<void* const> stores;
  std::span<const ScalarValue> scalars;
  void* workspace =
      nullptr;  // Plan::workspace() bytes, aligned to 64; null on a GPU, where a plan takes its own
  const Executable* owner = nullptr;  // what a CUDA graph that records the execution has to keep alive
};

/// What plans are timed on: the arguments themselves, and scratch memory in place of all that is written.
struct Trial {
  std::vector<void*> tensors, stores;
  std::vector<ScalarValue> scalars;
  std::vector<std::shared_ptr<Storage>> scratch;
  Invocation invocation() const { return {tensors, stores, scalars}; }
};

/// The tensors of a vendor's graph by uid, and their memory.
using NativePack = std::vector<std::pair<std::int64_t, void*>>;

class Plan {
 public:
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  virtual ~Plan() = default;
  virtual std::size_t workspace() const = 0;
  virtual void execute(const Invocation&) const = 0;
  /// Whether the store may write the very memory that the tensor read names; asked only where every use of
  /// the tensor is elementwise at the store's own index.
  virtual bool allows_in_place(std::size_t tensor, std::size_t store) const = 0;
  /// The steps that will run, one line each.
  virtual std::string describe() const = 0;
  /// What Backend::load needs besides the graph; nothing where the plan is made anew.
  virtual void save(Writer&) const {}
  /// Which operations run as one, in the order in which they run: each operation of the graph in one region,
  /// the first that computes it. Unless a plan says otherwise all are one.
  virtual std::vector<Region> regions(const CanonicalGraph& graph) const;
  /// The graph of cudnn-frontend that executes the plan, and lives as long as it; null where there is none.
  /// DeviceError where it is not in this process.
  virtual void* native_graph() const { return nullptr; }
  /// What native_graph() is executed with. Numbers are written to `numbers`, 8 bytes each, and pointed to
  /// there.
  virtual NativePack native_pack(const Invocation&, std::span<std::uint64_t> /*numbers*/) const { return {}; }
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;
  virtual std::string target() const = 0;   // "CPU (x86-64-v4, 2 threads)"
  virtual std::string library() const = 0;  // "oneDNN 3.2.0"
  /// Throws UnsupportedGraphError when no engine takes the graph under the options.
  virtual std::unique_ptr<const Plan> build(const CanonicalGraph&, const PlanOptions&,
                                            Device device) const = 0;
  /// The fastest of the plans that build would choose from; with those that mean nothing by it, build's.
  virtual std::unique_ptr<const Plan> tune(const CanonicalGraph& graph, const PlanOptions& options,
                                           Device device, const std::function<Trial()>&) const {
    return build(graph, options, device);
  }
  /// The plan of a graph as Plan::save wrote it. DeviceError where it was made for another GPU or library,
  /// ArchiveError where the bytes are not a plan's.
  virtual std::unique_ptr<const Plan> load(Reader&, const CanonicalGraph& graph, Device device) const {
    return build(graph, PlanOptions(CompileOptions{}), device);
  }
  /// All that a plan depends on besides its graph; empty where plans are made faster than they are read.
  virtual std::string cache_key(const PlanOptions&, Device) const { return {}; }
};

/// Why no engine takes a graph: the parts of an UnsupportedGraphError.
struct Refusal {
  std::string target, library;
  std::vector<EngineReason> reasons;
  std::optional<std::string> excluded_by;  // the option that removed the last candidates
  std::string hint;                        // the way out, a clause
  std::string part = {};                   // the smallest part that is refused, where that is known
};
[[noreturn]] void throw_unsupported(const CanonicalGraph& graph, Refusal refusal);
/// Why a backend that accumulates in float32 and float64 refuses another compute_dtype, but for the target
/// and the library; nullopt where it need not.
std::optional<Refusal> refused_accumulation(const CanonicalGraph& graph, const char* engine);

Backend& cpu_backend();
Backend& cudnn_backend();  // exists where the build has it (STILETTO_HAS_CUDNN)

}  // namespace stiletto::detail
