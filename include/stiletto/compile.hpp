// SPDX-License-Identifier: Apache-2.0
// compile and jit: a function over arrays becomes one graph and a callable. The templates here only walk the
// caller's arguments and results; tracing, lowering, checking and execution are behind the non-template calls
// in detail.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "stiletto/array.hpp"
#include "stiletto/error.hpp"
#include "stiletto/structure.hpp"

namespace stiletto {

namespace detail {
struct TargetProperties;
struct TargetAccess;
}  // namespace detail

/// A GPU to build plans for, present or not.
class STILETTO_API Target {
 public:
  /// "h200", "b200", ...; ArgumentError for an unknown name lists the known ones.
  static Target named(const std::string& name);
  /// Device properties as cuDNN serialises them (JSON). ArgumentError says what is wrong with the file.
  static Target from_file(const std::filesystem::path& path);
  static Target current(int device = 0);  ///< the GPU that is there; DeviceError without one
  static std::vector<std::string> names();
  std::string to_json() const;
  bool operator==(const Target&) const;

 private:
  friend struct detail::TargetAccess;
  explicit Target(std::shared_ptr<const detail::TargetProperties> properties);
  std::shared_ptr<const detail::TargetProperties> properties_;
};

/// cuDNN's ways of proposing engines. On the CPU they mean nothing.
enum class Heuristic : std::uint8_t { a, b, fallback };

/// On: the candidate plans for a GPU are timed on the arguments of compile, or of jit's first call, and the
/// fastest is kept, also in the cache folder. It takes seconds to tens of seconds, in which the arguments are
/// read and nothing of the caller's is written. On the CPU it means nothing.
enum class Autotune : std::uint8_t { off, on };

/// Memory for outputs: contiguous, of this shape and dtype, on this device, aligned to at least 16 bytes;
/// anything else throws ArgumentError at the call.
using Allocator = std::function<Array(Device, const Shape&, DType)>;

struct CompileOptions {
  std::optional<DType> io_dtype = {};         ///< of floating-point outputs that are not the result of a cast
  DType intermediate_dtype = DType::float32;  ///< of floating-point values inside the graph, up to 32 bits
  DType compute_dtype = DType::float32;       ///< of their accumulation
  Allocator allocator = {};                   ///< used per call; not part of the plan key
  std::optional<std::size_t> max_workspace = {};  ///< bytes of scratch per call
  bool deterministic = false;              ///< only engines whose results are bit-equal from run to run
  std::vector<Heuristic> heuristics = {};  ///< asked in this order; empty: a, then fallback
  Autotune autotune = Autotune::off;       ///< time the candidate plans and keep the fastest
  std::optional<Target> target = {};       ///< build for this GPU, present or not
  /// Plans for GPUs are kept in this folder, for other processes, too; not part of the plan key. By default
  /// the environment variable STILETTO_CACHE names it; an empty path: nowhere.
  std::optional<std::filesystem::path> cache_folder = {};
};

namespace detail {
class Executable;
struct BindingTable;
}  // namespace detail

/// Every tensor of a graph and its memory: "arg0", "arg1.0" (first array inside the second argument),
/// "capture0", "scalar0", "out0".
class STILETTO_API Bindings {
 public:
  Bindings() = default;
  std::vector<std::string> names() const;
  Array get(const std::string& name) const;
  /// Same shape, dtype, strides, device and alignment, or ArgumentError; an unknown name lists the known
  /// ones.
  void set(const std::string& name, const Array& memory);

 private:
  friend class detail::Executable;
  friend class Graph;
  std::shared_ptr<detail::BindingTable> table_;
};

/// A cheap handle to a built graph.
class STILETTO_API Graph {
 public:
  Graph() = default;
  /// Exactly what calling the Compiled does, on the memory in the bindings.
  void execute(const Bindings&) const;
  std::string to_string() const;  ///< the recorded trace, the canonical graph and the plan, as text
  std::string to_dot() const;     ///< the canonical graph for Graphviz, with what the plan runs as one
  std::string to_json() const;    ///< the canonical graph
  std::string to_html() const;    ///< a page for a browser, in one file: all of these, drawn and as text

 private:
  friend class detail::Executable;
  std::shared_ptr<const detail::Executable> executable_;
};

// ---- how arguments reach the function
// ------------------------------------------------------------------------------- Arithmetic arguments, also
// in tuples and pairs, reach the function as rank-0 Arrays, bound by value at each call. Vectors, std::arrays
// and opted-in structs (`auto fields() { return std::tie(w, b); }`) hold arrays; a struct's other members are
// constants of the trace.

template <class T>
struct traced {
  using type = T;
};
template <Scalar T>
struct traced<T> {
  using type = Array;
};
template <class... T>
struct traced<std::tuple<T...>> {
  using type = std::tuple<typename traced<T>::type...>;
};
template <class A, class B>
struct traced<std::pair<A, B>> {
  using type = std::pair<typename traced<A>::type, typename traced<B>::type>;
};
template <class T>
using traced_t = typename traced<std::remove_cvref_t<T>>::type;
template <class F, class... Args>
using result_t = std::remove_cvref_t<std::invoke_result_t<F&, traced_t<Args>&...>>;
template <class F>
concept Traceable = !std::same_as<std::remove_cvref_t<F>, CompileOptions>;

namespace detail {

/// True while a function is being traced on this thread.
STILETTO_API bool tracing();

/// Records one trace on this thread, from construction to compile() or find_or_compile(); destruction
/// abandons it.
class STILETTO_API Tracing {
 public:
  explicit Tracing(const CompileOptions& options);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  /// The traced counterpart of an argument's array. `member` counts the arrays inside a composite argument,
  /// −1: itself.
  Array argument(const Array& example, int position, int member);
  /// Of the argument whose arrays have just been given.
  void structure(const Structure& structure);
  void result(const Array& value);
  /// The hash under which jit looks this trace up.
  std::uint64_t key() const;
  /// Ends the trace and builds its plan.
  std::shared_ptr<const Executable> compile();
  /// Ends the trace, looks its plan up and builds it when it is new.
  std::shared_ptr<const Executable> find_or_compile();
  /// Runs `executable` on this trace's numbers (jit binds captured numbers by value, whatever plan it found).
  void run(const Executable& executable, const ArgumentList& arguments, const Allocator& allocator,
           std::vector<Array>& outputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

STILETTO_API void run(const Executable& executable, const ArgumentList& arguments,
                      std::vector<Array>& outputs);
STILETTO_API void save(const Executable& executable, const std::filesystem::path& path,
                       const std::vector<std::uint64_t>& sizes);
/// `sizes`: of the containers in the result, as save was given them.
STILETTO_API std::shared_ptr<const Executable> load(const std::filesystem::path& path,
                                                    const Allocator& allocator,
                                                    std::vector<std::uint64_t>& sizes);
STILETTO_API void check_signature(const Executable& executable, const std::filesystem::path& path,
                                  std::size_t arguments, std::size_t results);
STILETTO_API std::size_t workspace_of(const Executable& executable);
STILETTO_API Graph graph_of(std::shared_ptr<const Executable> executable);
STILETTO_API Bindings bind(const Executable& executable, const ArgumentList& arguments,
                           std::vector<Array>& outputs);
[[noreturn]] STILETTO_API void throw_not_compiled();

/// Calls f on traced counterparts of the arguments and reports its results to the trace.
template <class R, class F, class... T>
auto trace_call(Tracing& tracing, F& f, std::tuple<T...> arguments) {
  int position = 0;
  auto replace = [&](auto& argument) {
    const int member = std::same_as<std::remove_cvref_t<decltype(argument)>, Array> ? -1 : 0;
    struct {
      Tracing& tracing;
      int position, member;
      Structure structure;
      void operator()(Array& array) {
        array = tracing.argument(array, position, member);
        if (member >= 0) ++member;
        ++structure.arrays;
      }
      void range(std::size_t size) { structure.range(size); }
    } visit{tracing, position, member, {}};
    visit_arrays(argument, visit);
    tracing.structure(visit.structure);
    ++position;
  };
  std::apply([&](auto&... argument) { (replace(argument), ...); }, arguments);
  if constexpr (std::is_void_v<R>) {
    std::apply(f, arguments);
    return 0;
  } else {
    auto result = std::make_shared<R>(std::apply(f, arguments));
    auto report = [&](Array& array) { tracing.result(array); };
    visit_arrays(*result, report);
    return result;
  }
}
}  // namespace detail

template <class R>
struct Bound {
  Bindings bindings;
  R outputs;
};
template <>
struct Bound<void> {
  Bindings bindings;
};

template <class Signature>
class Compiled;

namespace detail {
struct CompiledAccess;
}

/// A compiled function. Copies share the plan; any thread may call it.
template <class R, class... Args>
class Compiled<R(Args...)> {
 public:
  Compiled() = default;

  /// Checks every argument against the trace (ShapeError, DTypeError, ArgumentError, AliasError), executes,
  /// returns.
  R operator()(const Args&... args) const {
    detail::ArgumentList list;
    (detail::append(list, args), ...);
    std::vector<Array> outputs;
    detail::run(executable(), list, outputs);
    return result(outputs);
  }
  std::size_t workspace() const { return detail::workspace_of(executable()); }
  const Graph& graph() const {
    executable();  // refuses an empty handle
    return graph_;
  }
  /// The arguments, checked, and freshly allocated outputs, without executing.
  Bound<R> bindings(const Args&... args) const {
    detail::ArgumentList list;
    (detail::append(list, args), ...);
    std::vector<Array> outputs;
    Bindings bindings = detail::bind(executable(), list, outputs);
    if constexpr (std::is_void_v<R>)
      return {std::move(bindings)};
    else
      return {std::move(bindings), result(outputs)};
  }
  /// Writes the plan and what calling it needs, all or nothing; `load` reads it. ArgumentError where arrays
  /// are captured (pass them as arguments) or the file cannot be written.
  void save(const std::filesystem::path& path) const {
    struct {
      std::vector<std::uint64_t> sizes;
      void operator()(const Array&) {}
      void range(std::size_t size) { sizes.push_back(size); }
    } visit;
    executable();  // refuses an empty handle
    if constexpr (!std::is_void_v<R>) detail::visit_arrays(*prototype_, visit);
    detail::save(executable(), path, visit.sizes);
  }

 private:
  template <class Signature>
  friend Compiled<Signature> load(const std::filesystem::path&, Allocator);
  template <class F, class... A>
  friend auto compile(const CompileOptions&, F&&, const A&...) -> Compiled<result_t<F, A...>(traced_t<A>...)>;
  friend struct detail::CompiledAccess;
  using Prototype = std::conditional_t<std::is_void_v<R>, int, R>;

  const detail::Executable& executable() const {
    if (!executable_) detail::throw_not_compiled();
    return *executable_;
  }
  static Compiled loaded(const std::filesystem::path& path, const Allocator& allocator) {
    static_assert((!Scalar<Args> && ...), "in the signature given to load a number is an Array, too");
    Compiled compiled;
    std::vector<std::uint64_t> sizes;
    compiled.executable_ = detail::load(path, allocator, sizes);
    compiled.graph_ = detail::graph_of(compiled.executable_);
    struct {
      std::size_t count = 0;
      void operator()(const Array&) { ++count; }
    } results;
    if constexpr (!std::is_void_v<R>) {
      auto prototype = std::make_shared<R>();
      std::size_t next = 0;
      detail::resize_containers(*prototype, sizes, next);
      detail::visit_arrays(*prototype, results);
      compiled.prototype_ = std::move(prototype);
    }
    detail::check_signature(*compiled.executable_, path, sizeof...(Args), results.count);
    return compiled;
  }
  R result(const std::vector<Array>& outputs) const {
    if constexpr (!std::is_void_v<R>) {
      R copy(*prototype_);
      detail::assign_outputs(copy, outputs);
      return copy;
    }
  }
  std::shared_ptr<const detail::Executable> executable_;
  Graph graph_;
  std::shared_ptr<const Prototype>
      prototype_;  // the traced function's result: its sizes and non-array members
};

/// What Compiled::save wrote, as a function of this signature (a plan holds compiled code: load what you
/// trust): Array for each array or number, tuples, vectors and structs as they were compiled; a struct's
/// other members are what its default constructor makes them. ArgumentError where the file is not a whole
/// plan, is of another version of Stiletto or has another signature; DeviceError where it was made for
/// another GPU or another cuDNN.
template <class Signature>
Compiled<Signature> load(const std::filesystem::path& path, Allocator allocator = {}) {
  return Compiled<Signature>::loaded(path, allocator);
}

/// Traces f over arrays like `args`, lowers the trace to one graph and builds its plan. For the CPU a new
/// product or convolution cannot be planned while static objects are being destroyed: ArgumentError; plans
/// that are there can be called.
template <class F, class... Args>
auto compile(const CompileOptions& options, F&& f, const Args&... args)
    -> Compiled<result_t<F, Args...>(traced_t<Args>...)> {
  using R = result_t<F, Args...>;
  Compiled<R(traced_t<Args>...)> compiled;
  detail::Tracing tracing(options);
  auto result = detail::trace_call<R>(tracing, f, std::tuple<traced_t<Args>...>{traced_t<Args>(args)...});
  compiled.executable_ = tracing.compile();
  compiled.graph_ = detail::graph_of(compiled.executable_);
  if constexpr (!std::is_void_v<R>) compiled.prototype_ = std::move(result);
  return compiled;
}
template <Traceable F, class... Args>
auto compile(F&& f, const Args&... args) -> Compiled<result_t<F, Args...>(traced_t<Args>...)> {
  return compile(CompileOptions{}, std::forward<F>(f), args...);
}

/// Compiles on first use of this trace, then executes the cached plan. Inside another trace f is simply
/// called.
template <class F, class... Args>
auto jit(const CompileOptions& options, F&& f, const Args&... args) -> result_t<F, Args...> {
  using R = result_t<F, Args...>;
  std::tuple<traced_t<Args>...> arguments{traced_t<Args>(args)...};
  if (detail::tracing()) return std::apply(f, arguments);
  detail::Tracing tracing(options);
  auto result = detail::trace_call<R>(tracing, f, arguments);
  const auto executable = tracing.find_or_compile();
  detail::ArgumentList list;
  std::apply([&](const auto&... argument) { (detail::append(list, argument), ...); }, arguments);
  std::vector<Array> outputs;
  tracing.run(*executable, list, options.allocator, outputs);
  if constexpr (!std::is_void_v<R>) {
    detail::assign_outputs(*result, outputs);
    return std::move(*result);
  }
}
template <Traceable F, class... Args>
auto jit(F&& f, const Args&... args) -> result_t<F, Args...> {
  static const CompileOptions& options = *new CompileOptions;  // static destructors may still call jit
  return jit(options, std::forward<F>(f), args...);
}

struct Support {
  bool supported;
  std::string explanation;  ///< the text the error would carry
};

/// Whether compile(options, f, args...) has a plan, on a device that is there. It answers without throwing:
/// an exception of f's own, too, is a reason why there is no plan.
template <class F, class... Args>
Support supports(const CompileOptions& options, F&& f, const Args&... args) {
  try {
    compile(options, f, args...);
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
  return {true, {}};
}

/// jit's plans: least recently used go first, at most `capacity` per device.
class STILETTO_API PlanCache {
 public:
  std::size_t hits() const;
  std::size_t misses() const;
  std::size_t entries() const;
  std::size_t bytes() const;  ///< plans, constants they keep alive and workspace
  void set_capacity(std::size_t entries);
  void clear();
};
STILETTO_API PlanCache& plan_cache();

/// Whether products of float32 on GPUs may multiply in TF32, with 10 bits after the leading one; true at
/// first, unless NVIDIA_TF32_OVERRIDE=0 is in the environment. For the whole process, and before its first
/// use of a GPU: afterwards DeviceError. Without TF32 fewer graphs around such a product have an engine. The
/// CPU always multiplies in float32.
STILETTO_API void set_allow_tf32(bool allow);

}  // namespace stiletto
