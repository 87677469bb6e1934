// SPDX-License-Identifier: Apache-2.0
// Where array bodies lie. Every traced operation makes one, and a function's all end together, which is where
// malloc gets slow: each thread keeps some blocks for its next bodies.
#pragma once
#include <cstddef>
#include <new>

namespace stiletto::detail {

/// A block that this thread keeps, or a new one, of `bytes`: always the same number.
void* take_body_block(std::size_t bytes);
void give_body_block(void* block) noexcept;

/// For std::allocate_shared, which asks for one size only: a body and its counts.
template <class T>
struct BodyAllocator {
  using value_type = T;
  BodyAllocator() = default;
  template <class U>
  BodyAllocator(const BodyAllocator<U>& /*other*/) {
  }  // NOLINT(google-explicit-constructor): allocators convert
  static T* allocate(std::size_t count) { return static_cast<T*>(take_body_block(count * sizeof(T))); }
  static void deallocate(T* block, std::size_t /*count*/) noexcept { give_body_block(block); }
  bool operator==(const BodyAllocator&) const { return true; }
};

}  // namespace stiletto::detail
