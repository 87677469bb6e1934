// SPDX-License-Identifier: Apache-2.0
// oneDNN's engine, streams and version, which integers and bfloat16 it multiplies on this processor, and the
// calls that keep OpenMP out of it.
#include "backends/cpu/onednn.hpp"

#include <atomic>
#include <new>
#include <string>

#include "backends/cpu/matmul_engine.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace stiletto::detail::cpu {
namespace {

struct OpenMp {
  int (*max_threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
};

/// Found among the loaded libraries: a build of oneDNN brings the OpenMP library that it was made for, and
/// this library should not have to choose one when it is compiled.
OpenMp find_openmp() {
  OpenMp openmp;
#if defined(__unix__) || defined(__APPLE__)
  if (dnnl_version()->cpu_runtime == DNNL_RUNTIME_OMP) {
    openmp.max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    openmp.set_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  }
#endif
  if (openmp.max_threads == nullptr || openmp.set_threads == nullptr) openmp = {[] { return 1; }, [](int) {}};
  return openmp;
}

const OpenMp& openmp() {
  static const OpenMp functions = find_openmp();
  return functions;
}

/// The values of dnnl::cpu_isa are sets: each holds the bits of those it includes.
bool processor_has(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

/// Deletes the thread's stream when the thread ends.
struct StreamOwner {
  dnnl::stream*& stream;
  ~StreamOwner() {
    delete stream;
    stream = nullptr;
  }
};

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine& engine =
      *new dnnl::engine(dnnl::engine::kind::cpu, 0);  // outlives all static objects
  return engine;
}

const dnnl::stream& onednn_stream() {
  // A plain pointer outlives the thread's other objects: static objects whose destructors multiply find no
  // stream, and get one that nobody deletes.
  thread_local dnnl::stream* stream = nullptr;
  if (stream == nullptr) {
    stream = new dnnl::stream(onednn_engine());
    thread_local const StreamOwner owner{stream};
  }
  return *stream;
}

void check_onednn_is_there() {
  static std::atomic<bool> gone{false};  // plain data, which can be read at any time
  struct Watch {
    // Made after the cache, which asking for its size makes, and so destroyed before it.
    Watch() { static_cast<void>(dnnl::get_primitive_cache_capacity()); }
    ~Watch() { gone.store(true); }
  };
  if (gone.load())
    throw ArgumentError(
        "compile: the process is ending, and oneDNN, with which products and convolutions are planned, is "
        "gone; compile before main returns and call the plan");
  static const Watch watch;
}

std::optional<dnnl::memory::data_type> onednn_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::float32:
      return Type::f32;
    case DType::bfloat16:
      return Type::bf16;
    case DType::int8:
      return Type::s8;
    case DType::uint8:
      return Type::u8;
    case DType::int32:
      return Type::s32;
    default:
      return std::nullopt;
  }
}

OnednnOnOneThread::OnednnOnOneThread() : threads_before_(openmp().max_threads()) {
  if (threads_before_ != 1) openmp().set_threads(1);
}

OnednnOnOneThread::~OnednnOnOneThread() {
  if (threads_before_ != 1) openmp().set_threads(threads_before_);
}

void throw_ours(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
  throw InternalError(text("oneDNN: ", error.what(), " (status ", error.status, "); please report this"));
}

bool onednn_multiplies_bfloat16() {
  static const bool native =
      processor_has(dnnl_cpu_isa_avx512_core_bf16);  // elsewhere by conversion, or not at all
  return native;
}

bool onednn_multiplies(DType a, DType b) {
  // Without VNNI products of bytes saturate at 16 bits on the way. Of mixed signs oneDNN 3.2 takes uint8·int8
  // only.
  static const bool exact_bytes =
      processor_has(dnnl_cpu_isa_avx512_core_vnni) || processor_has(dnnl_cpu_isa_avx2_vnni);
  if (b == DType::int8) return exact_bytes && (a == DType::int8 || a == DType::uint8);
  return a == b && (a == DType::float32 || (a == DType::bfloat16 && onednn_multiplies_bfloat16()));
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return text("oneDNN ", version.major, ".", version.minor, ".", version.patch);
}

}  // namespace stiletto::detail::cpu
