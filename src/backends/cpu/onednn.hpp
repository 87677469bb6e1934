// SPDX-License-Identifier: Apache-2.0
// What every use of oneDNN shares: the engine, a stream per thread, its dtypes, and keeping it
// single-threaded: the parallelism is parallel_for's, whose workers do not spin for milliseconds after each
// call and which survives fork. Included by onednn*.cpp only.
#pragma once
#include <optional>

#include <oneapi/dnnl/dnnl.hpp>

#include "stiletto/dtype.hpp"

namespace stiletto::detail::cpu {

const dnnl::engine& onednn_engine();
const dnnl::stream& onednn_stream();
std::optional<dnnl::memory::data_type> onednn_type(DType);

/// Before primitives are created. oneDNN's cache of them is a static object, which creating one once that has
/// been destroyed would use: ArgumentError instead. Executing those that are there goes on working.
void check_onednn_is_there();

/// While one lives, oneDNN creates and executes primitives on this thread alone. Only the OpenMP builds of
/// oneDNN need it; the program's own setting for the thread is put back.
class OnednnOnOneThread {
 public:
  OnednnOnOneThread();
  OnednnOnOneThread(const OnednnOnOneThread&) = delete;
  OnednnOnOneThread& operator=(const OnednnOnOneThread&) = delete;
  ~OnednnOnOneThread();

 private:
  int threads_before_;
};

/// make(), or nothing where oneDNN refuses. Its other errors become std::bad_alloc or InternalError.
[[noreturn]] void throw_ours(const dnnl::error&);

template <class Make>
auto unless_refused(const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments) throw_ours(error);
    return std::nullopt;
  }
}

}  // namespace stiletto::detail::cpu
