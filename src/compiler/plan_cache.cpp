// SPDX-License-Identifier: Apache-2.0
// The plan cache: one list per device in order of use, one hash table over all of them, one lock that is
// never held while a plan is built.
#include "compiler/plan_cache.hpp"

#include <atomic>
#include <cstring>
#include <iomanip>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

#include "core/hash.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace {

/// Everything of a trace that its plan depends on; the values of numbers are bound per call.
struct Key {
  std::vector<Node> nodes;
  std::vector<ArgumentSpec> arguments;
  std::vector<Array>
      captures;  // by identity; keeps them alive, so that an address cannot come back as another's
  std::vector<TraceScalar> scalars;
  std::vector<TraceStore> stores;
  std::vector<std::uint32_t> results;
  std::optional<DType> io_dtype;
  DType intermediate_dtype, compute_dtype;
  PlanOptions plan;

  Key(const Trace& trace, const CompileOptions& options)
      : nodes(trace.nodes()),
        arguments(trace.arguments()),
        captures(trace.captures()),
        scalars(trace.scalars()),
        stores(trace.stores()),
        results(trace.results()),
        io_dtype(options.io_dtype),
        intermediate_dtype(options.intermediate_dtype),
        compute_dtype(options.compute_dtype),
        plan(options) {}
};

bool same_node(const Node& a, const Node& b) {
  return a.op == b.op && a.dtype == b.dtype && a.operand == b.operand && a.weak == b.weak &&
         a.scalar == b.scalar && a.arity == b.arity && a.inputs == b.inputs && a.shape == b.shape &&
         a.strides == b.strides && a.attributes == b.attributes;
}

bool same_argument(const ArgumentSpec& a, const ArgumentSpec& b) {
  return a.shape == b.shape && a.strides == b.strides && a.dtype == b.dtype && a.device == b.device &&
         a.alignment == b.alignment && a.number == b.number && a.scalar == b.scalar &&
         a.position == b.position && a.member == b.member;
}

bool same_capture(const Array& a, const Array& b) {
  const ArrayBody &x = *ArrayAccess::body_or_null(a), &y = *ArrayAccess::body_or_null(b);
  return x.storage == y.storage && x.offset == y.offset && x.dtype == y.dtype && x.shape == y.shape &&
         x.strides == y.strides;
}

template <class T, class Same>
bool same_lists(const std::vector<T>& a, const std::vector<T>& b, const Same& same) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}

bool matches(const Key& key, const Trace& trace, const CompileOptions& options) {
  return key.io_dtype == options.io_dtype && key.intermediate_dtype == options.intermediate_dtype &&
         key.compute_dtype == options.compute_dtype && key.plan == PlanOptions(options) &&
         key.results == trace.results() && same_lists(key.nodes, trace.nodes(), same_node) &&
         same_lists(key.arguments, trace.arguments(), same_argument) &&
         same_lists(key.captures, trace.captures(), same_capture) &&
         same_lists(key.scalars, trace.scalars(),
                    [](const TraceScalar& a, const TraceScalar& b) {
                      return a.dtype == b.dtype && a.weak == b.weak;
                    }) &&
         same_lists(key.stores, trace.stores(), [](const TraceStore& a, const TraceStore& b) {
           return a.destination == b.destination && a.value == b.value && a.position == b.position;
         });
}

/// Every input bit is mixed into every output bit, so that small integers in neighbouring fields do not
/// cancel.
class Hash {
 public:
  void add(std::uint64_t word) { state_ = folded_product(state_ ^ word) ^ 0xD6E8FEB86659FD93ULL; }
  void add(const Dims& dims) {
    add(dims.size());
    for (std::int64_t d : dims) add(static_cast<std::uint64_t>(d));
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x243F6A8885A308D3ULL;
};

void add_attributes(Hash& hash, const Attributes& attributes) {
  if (const auto* leaf = std::get_if<LeafAttributes>(&attributes)) return hash.add(leaf->index);
  if (const auto* view = std::get_if<ViewAttributes>(&attributes))
    return hash.add(static_cast<std::uint64_t>(view->offset));
  if (const auto* c = std::get_if<CoefficientAttributes>(&attributes))
    return hash.add(std::bit_cast<std::uint64_t>(c->coefficient.value));
  if (const auto* r = std::get_if<ReductionAttributes>(&attributes)) return hash.add(r->axes);
  if (const auto* p = std::get_if<PermuteAttributes>(&attributes)) return hash.add(p->axes);
  if (const auto* a = std::get_if<AttentionAttributes>(&attributes)) {
    hash.add(static_cast<std::uint64_t>(a->causal) | static_cast<std::uint64_t>(a->operands) << 8U);
    hash.add(std::bit_cast<std::uint64_t>(a->dropout.value));
    hash.add(static_cast<std::uint64_t>(a->max_seq_q));
    hash.add(static_cast<std::uint64_t>(a->max_seq_kv));
    return hash.add(static_cast<std::uint64_t>(a->window));
  }
  if (const auto* n = std::get_if<NormAttributes>(&attributes)) {
    hash.add(n->axes | static_cast<std::uint64_t>(n->bias) << 32U);
    hash.add(std::bit_cast<std::uint64_t>(n->epsilon.value));
    return hash.add(std::bit_cast<std::uint64_t>(n->momentum.value));
  }
  if (const auto* c = std::get_if<ConvAttributes>(&attributes))
    for (const Dims* dims : {&c->stride, &c->dilation, &c->pre_padding, &c->post_padding}) hash.add(*dims);
  if (const auto* p = std::get_if<PoolAttributes>(&attributes)) {
    for (const Dims* dims : {&p->window, &p->stride, &p->pre_padding, &p->post_padding}) hash.add(*dims);
    return hash.add(static_cast<std::uint64_t>(p->include_padding));
  }
  if (const auto* b = std::get_if<BlockAttributes>(&attributes))
    return hash.add(static_cast<std::uint64_t>(b->element) | static_cast<std::uint64_t>(b->scale) << 8U |
                    static_cast<std::uint64_t>(b->last) << 16U | static_cast<std::uint64_t>(b->size) << 32U);
  if (const auto* p = std::get_if<PartAttributes>(&attributes)) return hash.add(p->index);
  if (const auto* m = std::get_if<MatmulAttributes>(&attributes)) {
    hash.add(std::bit_cast<std::uint64_t>(m->alpha.value));
    hash.add(std::bit_cast<std::uint64_t>(m->beta.value));
  }
}

}  // namespace

std::uint64_t hash_of(const Trace& trace, const CompileOptions& options) {
  Hash hash;
  for (const Node& node : trace.nodes()) {
    hash.add(static_cast<std::uint64_t>(node.op) | static_cast<std::uint64_t>(node.dtype) << 8U |
             static_cast<std::uint64_t>(node.arity) << 16U |
             static_cast<std::uint64_t>(node.inputs[0]) << 32U);
    for (std::size_t i = 1; i < node.arity; ++i) hash.add(node.inputs[i]);
    if (node.arity == 0 || row_of(node.op).family == Family::layout || node.op == Op::view) {
      hash.add(node.shape);
      hash.add(node.strides);
    }
    add_attributes(hash, node.attributes);
  }
  for (const Array& capture : trace.captures())
    hash.add(reinterpret_cast<std::uintptr_t>(ArrayAccess::body_or_null(capture)->data()));
  for (std::uint32_t result : trace.results()) hash.add(result);
  for (const TraceStore& store : trace.stores())
    hash.add(store.destination | static_cast<std::uint64_t>(store.value) << 32U);
  for (const ArgumentSpec& argument : trace.arguments())
    hash.add(static_cast<std::uint64_t>(argument.alignment) |
             static_cast<std::uint64_t>(argument.number) << 8U |
             static_cast<std::uint64_t>(argument.position) << 16U |
             static_cast<std::uint64_t>(static_cast<std::uint32_t>(argument.member)) << 32U);
  hash.add(static_cast<std::uint64_t>(options.io_dtype ? static_cast<int>(*options.io_dtype) + 1 : 0) |
           static_cast<std::uint64_t>(options.intermediate_dtype) << 8U |
           static_cast<std::uint64_t>(options.compute_dtype) << 16U |
           static_cast<std::uint64_t>(options.deterministic) << 24U |
           static_cast<std::uint64_t>(options.autotune) << 25U);
  hash.add(options.max_workspace ? *options.max_workspace + 1 : 0);
  return hash.value();
}

namespace {

/// What became of a trace: its executable, or why it has none.
struct Outcome {
  std::shared_ptr<const Executable> executable;
  std::shared_ptr<const UnsupportedGraphError> refusal;

  explicit operator bool() const { return executable || refusal; }
  std::size_t bytes() const {
    if (executable) return executable->bytes();
    return sizeof(UnsupportedGraphError) + 2 * std::strlen(refusal->what());  // the text and its parts
  }
  std::shared_ptr<const Executable> get() const {
    if (refusal) throw UnsupportedGraphError(*refusal);
    return executable;
  }
};

struct Entry {
  std::uint64_t hash;
  Key key;
  Outcome outcome;
  int device;
};
using Entries = std::list<Entry>;

std::string hex(std::uint64_t hash) {
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << hash;
  return out.str();
}
/// The executable's name takes time to make up, so it is done for logs only.
void log_entry(const char* event, std::uint64_t hash, const Outcome& outcome) {
  log(LogTopic::cache,
      text(event, ' ', hex(hash), ": ",
           outcome.executable ? outcome.executable->expression() : "refused for " + outcome.refusal->target));
}

struct CacheState {
  std::mutex mutex;
  std::map<int, Entries> by_device;  // most recently used first
  std::unordered_multimap<std::uint64_t, Entries::iterator> table;
  std::size_t capacity = 1024;
  std::size_t bytes = 0;
  std::atomic<std::size_t> hits{0}, misses{0};

  Outcome find(std::uint64_t hash, const Trace& trace, const CompileOptions& options) {
    const auto [begin, end] = table.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (!matches(it->second->key, trace, options)) continue;
      Entries& entries = by_device[it->second->device];
      entries.splice(entries.begin(), entries, it->second);
      return it->second->outcome;
    }
    return {};
  }
  void insert(Entry entry) {
    Entries& entries = by_device[entry.device];
    bytes += entry.outcome.bytes();
    const std::uint64_t hash = entry.hash;
    entries.push_front(std::move(entry));
    table.emplace(hash, entries.begin());
  }
  /// Moves what is over the capacity out of the cache; it is destroyed after the lock is released.
  Entries trim() {
    Entries evicted;
    for (auto& [device, entries] : by_device)
      while (entries.size() > capacity) {
        const auto last = std::prev(entries.end());
        const auto [begin, end] = table.equal_range(last->hash);
        for (auto it = begin; it != end; ++it)
          if (it->second == last) {
            table.erase(it);
            break;
          }
        bytes -= last->outcome.bytes();
        evicted.splice(evicted.end(), entries, last);
      }
    return evicted;
  }
};

/// What trim() gave, once the lock is released.
void log_evicted(const Entries& evicted) {
  if (!evicted.empty() && log_enabled(LogTopic::cache))
    for (const Entry& entry : evicted) log_entry("evicted", entry.hash, entry.outcome);
}

/// Never destroyed: arrays and threads may outlive static destruction.
CacheState& cache() {
  static CacheState& state = *new CacheState;
  return state;
}

Outcome build(const Trace& trace, const CompileOptions& options, std::span<const Array> examples) try {
  return {Executable::build(trace, options, examples), nullptr};
} catch (const UnsupportedGraphError& refusal) {
  return {nullptr, std::make_shared<const UnsupportedGraphError>(refusal)};
}

}  // namespace

std::shared_ptr<const Executable> find_or_build(const Trace& trace, const CompileOptions& options,
                                                std::span<const Array> examples) {
  CacheState& c = cache();
  const std::uint64_t hash = hash_of(trace, options);
  Outcome found;
  {
    const std::lock_guard lock(c.mutex);
    found = c.find(hash, trace, options);
  }
  if (found) {
    c.hits.fetch_add(1, std::memory_order_relaxed);
    if (log_enabled(LogTopic::cache)) log_entry("hit", hash, found);
    return found.get();
  }
  c.misses.fetch_add(1, std::memory_order_relaxed);
  if (log_enabled(LogTopic::cache))
    log(LogTopic::cache, text("miss ", hex(hash), ": ", trace.nodes().size(), " nodes to compile"));
  const Outcome built = build(trace, options, examples);
  const Device device = Executable::device_of(trace);
  Entry entry{hash, Key(trace, options), built, device.is_cpu() ? -1 : device.index()};
  Entries evicted;
  {
    const std::lock_guard lock(c.mutex);
    if (const Outcome other = c.find(hash, trace, options)) return other.get();  // another thread was as fast
    c.insert(std::move(entry));
    evicted = c.trim();
  }
  log_evicted(evicted);
  return built.get();
}

}  // namespace stiletto::detail

namespace stiletto {

std::size_t PlanCache::hits() const { return detail::cache().hits.load(std::memory_order_relaxed); }
std::size_t PlanCache::misses() const { return detail::cache().misses.load(std::memory_order_relaxed); }
std::size_t PlanCache::entries() const {
  const std::lock_guard lock(detail::cache().mutex);
  return detail::cache().table.size();
}
std::size_t PlanCache::bytes() const {
  const std::lock_guard lock(detail::cache().mutex);
  return detail::cache().bytes;
}
void PlanCache::set_capacity(std::size_t entries) {
  detail::Entries evicted;
  {
    const std::lock_guard lock(detail::cache().mutex);
    detail::cache().capacity = entries;
    evicted = detail::cache().trim();
  }
  detail::log_evicted(evicted);
}
void PlanCache::clear() {
  detail::Entries evicted;
  {
    const std::lock_guard lock(detail::cache().mutex);
    const std::size_t capacity = std::exchange(detail::cache().capacity, 0);
    evicted = detail::cache().trim();
    detail::cache().capacity = capacity;
  }
  detail::log_evicted(evicted);
}

PlanCache& plan_cache() {
  static PlanCache cache;
  return cache;
}

}  // namespace stiletto
