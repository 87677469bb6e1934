// SPDX-License-Identifier: Apache-2.0
// The arrays inside arguments and results: tuples, pairs, vectors, std::arrays and structs with fields() are
// walked in one order, by tracing, by calls and by saved plans.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "stiletto/array.hpp"

namespace stiletto::detail {

/// A container of what can be traced; what it holds is looked at as it is visited.
template <class T>
concept TracedRange = std::ranges::range<T> && !std::is_arithmetic_v<std::ranges::range_value_t<T>>;

template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;

/// Calls `visit` with each Array inside `value`, in order.
template <class T, class Visit>
void visit_arrays(T& value, Visit& visit) {
  using V = std::remove_const_t<T>;
  if constexpr (std::same_as<V, Array>) {
    visit(value);
  } else if constexpr (is_tuple<V>) {
    std::apply([&](auto&... member) { (visit_arrays(member, visit), ...); }, value);
  } else if constexpr (requires(V& v) { v.fields(); }) {
    // fields() is a non-const member that only ties references; nothing is written through them when T is
    // const.
    std::apply([&](auto&... member) { (visit_arrays(member, visit), ...); }, const_cast<V&>(value).fields());
  } else {
    static_assert(TracedRange<T>,
                  "Stiletto traces Array, arithmetic scalars, tuples and pairs of those, and std::array, "
                  "std::vector and "
                  "structs with fields() of arrays");
    if constexpr (TracedRange<T>) {
      if constexpr (requires { visit.range(std::size_t{}); }) visit.range(std::ranges::size(value));
      for (auto& member : value) visit_arrays(member, visit);
    }
  }
}

/// The sizes of the containers inside one argument, folded into a number, so that arrays cannot slide from
/// one to another unseen.
struct Structure {
  std::uint64_t arrays = 0;
  std::uint64_t containers = 0;  // their sizes, folded
  void range(std::size_t size) { containers = (containers + size + 1) * 0x9E3779B97F4A7C15ULL; }
  bool operator==(const Structure&) const = default;
};

/// The arrays of one call in order, and each argument's structure; no allocation for up to 16 of either.
class ArgumentList {
 public:
  void argument(const Structure& structure) {
    if (arguments_ < structures_.size())
      structures_[arguments_] = structure;
    else
      more_structures_.push_back(structure);
    ++arguments_;
  }
  const Structure& structure(std::size_t position) const {
    return position < structures_.size() ? structures_[position]
                                         : more_structures_[position - structures_.size()];
  }
  void push(const Array& array) {
    if (count_ < inline_.size())
      inline_[count_] = &array;
    else
      spill(array);
    ++count_;
  }
  std::span<const Array* const> arrays() const {
    return count_ <= inline_.size() ? std::span(inline_.data(), count_)
                                    : std::span<const Array* const>(spilled_);
  }

 private:
  void spill(const Array& array) {
    if (spilled_.empty()) spilled_.assign(inline_.begin(), inline_.end());
    spilled_.push_back(&array);
  }
  std::array<const Array*, 16> inline_;
  std::size_t count_ = 0;
  std::vector<const Array*> spilled_;
  std::array<Structure, 16> structures_;
  std::size_t arguments_ = 0;
  std::vector<Structure> more_structures_;
};

/// Gives the containers in a value these sizes, in the order in which visit_arrays meets them.
template <class T>
void resize_containers(T& value, const std::vector<std::uint64_t>& sizes, std::size_t& next) {
  auto member = [&](auto& m) { resize_containers(m, sizes, next); };
  if constexpr (std::same_as<T, Array>) {
  } else if constexpr (is_tuple<T>) {
    std::apply([&](auto&... m) { (member(m), ...); }, value);
  } else if constexpr (requires { value.fields(); }) {
    std::apply([&](auto&... m) { (member(m), ...); }, value.fields());
  } else {
    const std::uint64_t size = next < sizes.size() ? sizes[next] : 0;
    ++next;
    if constexpr (requires { value.resize(size); }) value.resize(size);
    for (auto& m : value) member(m);
  }
}

template <class T>
ArgumentList& append(ArgumentList& list, const T& value) {
  struct {
    ArgumentList& list;
    Structure structure;
    void operator()(const Array& array) {
      list.push(array);
      ++structure.arrays;
    }
    void range(std::size_t size) { structure.range(size); }
  } visit{list, {}};
  visit_arrays(value, visit);
  list.argument(visit.structure);
  return list;
}

/// Replaces each array of a result by the next output.
template <class R>
void assign_outputs(R& result, const std::vector<Array>& outputs) {
  auto next = outputs.begin();
  auto take = [&](Array& array) { array = *next++; };
  visit_arrays(result, take);
}

}  // namespace stiletto::detail
