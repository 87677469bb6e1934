// SPDX-License-Identifier: Apache-2.0
// The search: single changes of the whole graph first, then the part that is refused, then cuts around it.
#include "backends/cudnn/diagnosis.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "backends/cudnn/block_scaling.hpp"
#include "backends/cudnn/geometry.hpp"
#include "backends/cudnn/graph_variants.hpp"
#include "backends/cudnn/lower_structured.hpp"
#include "backends/cudnn/part_text.hpp"
#include "compiler/canonical_text.hpp"
#include "compiler/canonicalize.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cudnn {
namespace {

bool is_operation(const Value& value) { return value.kind == Value::Kind::operation; }

class Search {
 public:
  Search(const CanonicalGraph& graph, const Questions& questions,
         std::chrono::steady_clock::time_point deadline)
      : graph_(graph), questions_(questions), deadline_(deadline) {
    for (std::uint32_t i = 0; i < graph.values.size(); ++i)
      if (is_operation(graph.values[i])) operations_.push_back(i);
  }

  Diagnosis run() {
    Diagnosis result;
    if (operations_.empty()) return result;
    proposed_ = ask(questions_.proposes, graph_);
    for (const auto change : {&Search::aligned, &Search::laid_out, &Search::longer, &Search::other_dtype}) {
      result.variant = (this->*change)();
      if (!result.variant.empty()) break;
    }
    // To dequantize alone is always refused, and says nothing.
    if (operations_.size() > 1 && !has_block_scaling(graph_)) {
      const std::vector<std::uint32_t> part = smallest_part();
      if (!stopped_ || part.size() < operations_.size()) result.part = part_text(graph_, part);
    }
    if (result.variant.empty()) result.variant = cut();
    result.stopped = stopped_;
    return result;
  }

 private:
  // ---- asking ----

  bool late() {
    stopped_ = stopped_ || std::chrono::steady_clock::now() >= deadline_;
    return stopped_;
  }
  bool ask(const std::function<bool(const CanonicalGraph&)>& question, const CanonicalGraph& graph) {
    if (late()) return false;
    try {
      return question(graph);
    } catch (const std::exception&) {
      return false;
    }
  }
  bool takes(const CanonicalGraph& graph) {
    return ask(questions_.proposes, graph) && ask(questions_.accepts, graph);
  }
  /// Where the graph itself was proposed plans for and none could be built, parts have to be built to know.
  bool refuses(const CanonicalGraph& graph) {
    const bool taken = proposed_ ? takes(graph) : ask(questions_.proposes, graph);
    return !taken && !stopped_;
  }

  // ---- one change ----

  /// Changes of one kind, each of which may be made or left.
  using Apply = std::function<void(CanonicalGraph&, std::size_t change)>;

  bool ask_changed(const std::function<bool(const CanonicalGraph&)>& question,
                   const std::vector<std::size_t>& changes, const Apply& apply) {
    CanonicalGraph variant = graph_;
    for (std::size_t change : changes) apply(variant, change);
    canonicalize_axes(variant);
    return ask(question, variant);
  }

  /// As few of `count` changes as give a plan, none where all of them together do not.
  std::vector<std::size_t> fewest(std::size_t count, const Apply& apply) {
    std::vector<std::size_t> all(count);
    std::iota(all.begin(), all.end(), 0U);
    if (count == 0 || !ask_changed(questions_.proposes, all, apply)) return {};
    std::vector<std::size_t> few = fewest_proposed(all, apply);
    if (ask_changed(questions_.accepts, few, apply)) return few;
    return few != all && ask_changed(questions_.accepts, all, apply) ? all : std::vector<std::size_t>();
  }
  std::vector<std::size_t> fewest_proposed(std::vector<std::size_t> changes, const Apply& apply) {
    for (std::size_t change : changes)
      if (ask_changed(questions_.proposes, {change}, apply)) return {change};
    for (std::size_t change = changes.size(); change-- > 0;) {
      std::vector<std::size_t> rest = changes;
      std::erase(rest, change);
      if (rest.size() > 1 && ask_changed(questions_.proposes, rest, apply)) changes = std::move(rest);
    }
    return changes;
  }

  const Tensor& tensor_at(std::size_t i) const { return memory_at(graph_, i); }
  std::size_t tensors() const { return memory_count(graph_); }

  std::string names(const std::vector<std::size_t>& which) const {
    std::vector<std::string> result;
    for (std::size_t i : which)
      if (std::find(result.begin(), result.end(), tensor_at(i).name) == result.end())
        result.push_back(tensor_at(i).name);
    return listed(result);
  }

  std::string aligned() {
    std::vector<std::size_t> odd;
    for (std::size_t i = 0; i < tensors(); ++i)
      if (tensor_at(i).alignment < best_alignment) odd.push_back(i);
    const auto chosen = fewest(odd.size(), [&](CanonicalGraph& variant, std::size_t change) {
      memory_at(variant, odd[change]).alignment = best_alignment;
    });
    if (chosen.empty()) return "";
    return text("with ", names(picked(odd, chosen)), " at a multiple of ", best_alignment,
                " bytes in memory it has a plan: pass a copy of that view made outside the function");
  }

  /// Without gaps: in its own order, or else in that of the results.
  std::string laid_out() {
    for (const bool own_order : {true, false}) {
      const auto order = [&](const Tensor& tensor) {
        return own_order ? memory_order(tensor) : axes_of(tensor.axes, graph_.extents.size());
      };
      std::vector<std::size_t> loose;
      for (std::size_t i = 0; i < tensors(); ++i)
        if (!is_packed(tensor_at(i), graph_.extents, order(tensor_at(i)))) loose.push_back(i);
      const Apply apply = [&](CanonicalGraph& variant, std::size_t change) {
        Tensor& tensor = memory_at(variant, loose[change]);
        pack(tensor, graph_.extents, order(tensor));
      };
      const auto chosen = fewest(loose.size(), apply);
      if (chosen.empty()) continue;
      CanonicalGraph variant = graph_;
      std::vector<std::string> changes;
      for (std::size_t change : chosen) {
        apply(variant, change);
        const Tensor &before = tensor_at(loose[change]), &after = memory_at(variant, loose[change]);
        changes.push_back(text(before.name, " of strides ", strides_list(graph_, after), " over ",
                               graph_.axes_text(before.axes), " instead of ", strides_list(graph_, before)));
      }
      return text("with ", listed(changes), " it has a plan: ", way_to(picked(loose, chosen), own_order));
    }
    return "";
  }

  /// How a caller makes such arrays.
  std::string way_to(const std::vector<std::size_t>& changed, bool own_order) const {
    const Tensor& first = tensor_at(changed[0]);
    if (first.home == Tensor::Home::output) return "return it in that order";
    if (changed[0] >= graph_.tensors.size()) return "store to such an array, and copy from there";
    return own_order ? "pass a copy of that view made outside the function"
                     : "pass a copy made outside the function that lies in memory like that";
  }

  std::string longer() {
    if (has_structured(graph_) || has_block_scaling(graph_))
      return "";  // whose extents follow from each other
    AxisMask used;
    for (std::size_t i = 0; i < tensors(); ++i) used |= tensor_at(i).axes;
    constexpr std::int64_t largest = std::int64_t{1} << 40U;  // rounded up in every axis it fits 64 bits
    if (graph_.size_of(used) > largest) return "";
    for (const std::int64_t multiple : {4, 8, 16}) {
      std::vector<std::size_t> odd;
      for (std::size_t axis : axes_of(used, graph_.extents.size()))
        if (graph_.extents[axis] % multiple != 0) odd.push_back(axis);
      const auto rounded = [&](std::size_t axis) {
        return (graph_.extents[axis] + multiple - 1) / multiple * multiple;
      };
      const auto chosen = fewest(odd.size(), [&](CanonicalGraph& variant, std::size_t change) {
        extend(variant, odd[change], rounded(odd[change]));
      });
      if (chosen.empty()) continue;
      std::vector<std::string> changes;
      AxisMask longer;
      for (std::size_t axis : picked(odd, chosen)) {
        changes.push_back(text(axis_name(axis), '=', rounded(axis), " instead of ", graph_.extents[axis]));
        longer.set(axis);
      }
      std::vector<std::size_t> affected;
      for (std::size_t i = 0; i < graph_.tensors.size(); ++i)
        if ((tensor_at(i).axes & longer).any()) affected.push_back(i);
      return text("with ", listed(changes), changes.size() > 1 ? ", multiples of " : ", a multiple of ",
                  multiple, ", it has a plan: pad ", names(affected));
    }
    return "";
  }

  std::string other_dtype() {
    using enum DType;
    // Nearest first: what keeps most of the values.
    static constexpr std::pair<DType, DType> others[] = {
        {float64, float32},  {int64, float32},       {int32, float32},
        {float32, bfloat16}, {float32, float16},     {int8, float16},
        {uint8, float16},    {float8_e4m3, float16}, {float8_e5m2, float16}};
    for (const auto& [from, to] : others) {
      std::vector<std::size_t> of_it;
      for (std::size_t i = 0; i < graph_.tensors.size(); ++i)
        if (tensor_at(i).dtype == from) of_it.push_back(i);
      if (of_it.empty()) continue;
      const auto variant = retyped(graph_, from, to);
      if (variant && takes(*variant))
        return text("with ", names(of_it), " as ", to, " instead of ", from, " it has a plan");
    }
    return "";
  }

  // ---- parts ----

  using Flags = std::vector<bool>;

  /// The chosen operations; what others use of them is written to memory, and so are their own stores.
  CanonicalGraph part(const std::vector<std::uint32_t>& operations) const {
    PartChoice choice = nothing();
    for (std::uint32_t i : operations) choice.inside[i] = true;
    for (std::size_t s = 0; s < graph_.stores.size(); ++s)
      choice.stores[s] = choice.inside[graph_.stores[s].value];
    for (std::uint32_t user : operations_)
      for (std::size_t k = 0; k < graph_.values[user].arity; ++k) {
        const std::uint32_t input = graph_.values[user].inputs[k];
        if (choice.inside[input] && !choice.inside[user] && !is_stored(input)) choice.results[input] = true;
      }
    return part_of(graph_, choice);
  }
  PartChoice nothing() const {
    const Flags none(graph_.values.size());
    return {none, none, Flags(graph_.stores.size())};
  }
  bool is_stored(std::uint32_t value) const {
    return std::any_of(graph_.stores.begin(), graph_.stores.end(),
                       [&](const Store& store) { return store.value == value; });
  }

  /// Operations that are refused together: as far as the first one that makes the graph fail, from the last
  /// one that does, and without what can be left away at its ends.
  std::vector<std::uint32_t> smallest_part() {
    using Part = std::vector<std::uint32_t>;
    Part chosen = operations_;
    const auto at = [&](std::size_t i) { return chosen.begin() + static_cast<std::ptrdiff_t>(i); };
    std::size_t low = 0, high = chosen.size();
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      (refuses(part(Part(at(0), at(middle)))) ? high : low) = middle;
    }
    chosen.resize(high);
    low = 0;
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      (refuses(part(Part(at(middle), chosen.end()))) ? low : high) = middle;
    }
    chosen.erase(at(0), at(low));
    for (std::size_t i = chosen.size(); i-- > 0 && chosen.size() > 1;) {
      if (is_within(chosen, chosen[i])) continue;
      Part smaller = chosen;
      smaller.erase(smaller.begin() + static_cast<std::ptrdiff_t>(i));
      if (!refuses(part(smaller))) continue;
      chosen = std::move(smaller);
      i = chosen.size();  // others may have come to an end of it
    }
    return chosen;
  }

  bool reads(std::uint32_t user, std::uint32_t value) const {
    const Value& v = graph_.values[user];
    return std::find(v.inputs.begin(), v.inputs.begin() + v.arity, value) != v.inputs.begin() + v.arity;
  }
  /// Whether the operation has operations of the part on both sides, which would fall apart without it.
  bool is_within(const std::vector<std::uint32_t>& part, std::uint32_t operation) const {
    const bool read =
        std::any_of(part.begin(), part.end(), [&](std::uint32_t i) { return reads(i, operation); });
    return read &&
           std::any_of(part.begin(), part.end(), [&](std::uint32_t i) { return reads(operation, i); });
  }

  // ---- cuts ----

  std::string cut() {
    if (operations_.size() < 2) return "";
    for (std::size_t i = operations_.size(); i-- > 0;)
      if (std::string found = in_two(operations_[i]); !found.empty()) return found;
    for (std::size_t i = operations_.size(); i-- > 0;)
      if (std::string found = without(operations_[i]); !found.empty()) return found;
    for (std::uint32_t operation : operations_)
      if (takes_at_hand(operation))
        return text("with the result of ", operation_name(graph_, operation),
                    " as an argument it has a plan: compute that before the call, on the CPU");
    return "";
  }

  /// What the value is computed from, and itself.
  CanonicalGraph before(std::uint32_t value) const {
    PartChoice choice = nothing();
    choice.inside[value] = true;
    for (std::uint32_t i = value + 1; i-- > 0;)
      if (choice.inside[i])
        for (std::size_t k = 0; k < graph_.values[i].arity; ++k)
          choice.inside[graph_.values[i].inputs[k]] = is_operation(graph_.values[graph_.values[i].inputs[k]]);
    choice.results[value] = !is_stored(value);
    for (std::size_t s = 0; s < graph_.stores.size(); ++s) choice.stores[s] = graph_.stores[s].value == value;
    return part_of(graph_, choice);
  }
  /// Everything else, with the value at hand; nullopt where there is nothing else.
  std::optional<CanonicalGraph> behind(std::uint32_t value) const {
    PartChoice choice = nothing();
    for (std::size_t s = 0; s < graph_.stores.size(); ++s) {
      const std::uint32_t stored = graph_.stores[s].value;
      choice.stores[s] = stored != value;
      if (choice.stores[s]) choice.inside[stored] = is_operation(graph_.values[stored]);
    }
    for (std::size_t i = graph_.values.size(); i-- > 0;)
      if (choice.inside[i])
        for (std::size_t k = 0; k < graph_.values[i].arity; ++k) {
          const std::uint32_t input = graph_.values[i].inputs[k];
          choice.inside[input] = input != value && is_operation(graph_.values[input]);
        }
    if (std::none_of(choice.inside.begin(), choice.inside.end(), [](bool inside) { return inside; }))
      return std::nullopt;
    return part_of(graph_, choice);
  }

  std::string in_two(std::uint32_t value) {
    if (is_rounding(graph_.values[value])) return "";
    const std::optional<CanonicalGraph> rest = behind(value);
    if (!rest) return "";
    const CanonicalGraph first = before(value);
    const bool both = ask(questions_.proposes, first) && ask(questions_.proposes, *rest) &&
                      ask(questions_.accepts, first) && ask(questions_.accepts, *rest);
    if (!both) return "";
    const bool passed = std::any_of(operations_.begin(), operations_.end(),
                                    [&](std::uint32_t user) { return reads(user, value); });
    return passed ? text("as two functions it has plans: return the result of ",
                         operation_name(graph_, value), " from the first and pass it to the second")
                  : text("as two functions it has plans: compute ", operation_name(graph_, value),
                         " in one of its own");
  }

  bool takes_at_hand(std::uint32_t value) {
    if (is_rounding(graph_.values[value])) return false;
    const std::optional<CanonicalGraph> rest = behind(value);
    return rest && takes(*rest);
  }

  /// Without an operation and what follows from it.
  std::string without(std::uint32_t value) {
    if (is_rounding(graph_.values[value])) return "";
    Flags gone(graph_.values.size());
    gone[value] = true;
    std::vector<std::uint32_t> kept, rest;
    for (std::uint32_t i : operations_) {
      for (std::size_t k = 0; k < graph_.values[i].arity; ++k)
        gone[i] = gone[i] || gone[graph_.values[i].inputs[k]];
      (gone[i] ? rest : kept).push_back(i);
    }
    if (kept.empty() || !takes(part(kept))) return "";
    const std::string name = operation_name(graph_, value);
    if (rest.size() > 1 && takes_at_hand(value))
      return text("before and behind ", name,
                  " it has plans: compute that between two functions, on the CPU");
    const char* const where = takes(part(rest)) ? "in a second function" : "on the CPU";
    if (rest.size() == 1)
      return text("without ", name, " it has a plan: return what that reads, and compute it ", where);
    return text("without ", name,
                " and what follows from it, it has a plan: return what they read, and compute them ", where);
  }

  static std::vector<std::size_t> picked(const std::vector<std::size_t>& from,
                                         const std::vector<std::size_t>& which) {
    std::vector<std::size_t> result;
    result.reserve(which.size());
    for (std::size_t i : which) result.push_back(from[i]);
    return result;
  }

  static constexpr int best_alignment = 16;  // bytes

  const CanonicalGraph& graph_;
  const Questions& questions_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<std::uint32_t> operations_;
  bool proposed_ = false;  // whether plans were proposed for the graph itself, of which none could be built
  bool stopped_ = false;
};

}  // namespace

Diagnosis diagnose(const CanonicalGraph& graph, const Questions& questions,
                   std::chrono::steady_clock::time_point deadline) {
  return Search(graph, questions, deadline).run();
}

double diagnosis_seconds() {
  constexpr double usual = 2, most = 1e6;
  const char* const variable = std::getenv("STILETTO_DIAGNOSIS");
  if (variable == nullptr) return usual;
  double seconds = usual;
  const char* const end = variable + std::strlen(variable);
  const auto [last, error] = std::from_chars(variable, end, seconds);
  return error == std::errc{} && last == end && seconds >= 0 && seconds <= most ? seconds : usual;
}

}  // namespace stiletto::detail::cudnn
