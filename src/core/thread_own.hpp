// SPDX-License-Identifier: Apache-2.0
// A thread's own object of a type, which destructors that run after it can tell to be gone: those of statics
// and of other thread_locals may still call compiled functions.
#pragma once

namespace stiletto::detail {

template <class T>
class ThreadOwn {
 public:
  /// Null once this thread has destroyed it.
  static T* get() {
    if (gone()) return nullptr;
    thread_local Holder holder;
    return &holder.value;
  }

 private:
  struct Holder {
    T value;
    ~Holder() { gone() = true; }
  };
  /// Plain data, so it can be read after its thread's objects have been destroyed.
  static bool& gone() {
    thread_local bool gone = false;
    return gone;
  }
};

}  // namespace stiletto::detail
