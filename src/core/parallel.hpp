// SPDX-License-Identifier: Apache-2.0
// Running independent tasks on all cores, on threads of our own (started at first use, never joined, so that
// process exit has nothing to wait for). Results must not depend on which thread runs a task.
#pragma once
#include <cstddef>

namespace stiletto::detail {

/// Threads that take part, the caller included: the cores this process may use, or STILETTO_NUM_THREADS.
std::size_t thread_count();

/// Calls run(context, i) for each i < tasks and returns when all are done. The caller takes part; calls from
/// several threads at once share the workers; a nested call runs its tasks on the calling thread alone.
/// Allocates nothing. An exception in a task is rethrown here after the others have ended.
void parallel_for(std::size_t tasks, void (*run)(void* context, std::size_t task), void* context);

template <class F>
void parallel_for(std::size_t tasks, const F& f) {
  parallel_for(
      tasks, [](void* context, std::size_t task) { (*static_cast<const F*>(context))(task); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace stiletto::detail
