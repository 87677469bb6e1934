// SPDX-License-Identifier: Apache-2.0
// How the GPU benchmarks measure.
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <stiletto/stiletto.hpp>

#include "gpu_workload.hpp"

// ---- CUDA's runtime, as Stiletto opened it ----

template <class... T>
int cuda_status(const char* function, T... arguments) {
  static void* const runtime = [] {
    for (const char* name : {"libcudart.so.13", "libcudart.so.12"})
      if (void* const found = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return found;
    throw std::runtime_error("the CUDA runtime is not open");
  }();
  void* const symbol = dlsym(runtime, function);
  if (symbol == nullptr) throw std::runtime_error(std::string("no function ") + function);
  return reinterpret_cast<int (*)(T...)>(symbol)(arguments...);
}
template <class... T>
void cuda(const char* function, T... arguments) {
  if (const int status = cuda_status(function, arguments...); status != 0)
    throw std::runtime_error(std::string(function) + " returned " + std::to_string(status));
}
inline void synchronize() { cuda("cudaDeviceSynchronize"); }

class Event {
 public:
  Event() { cuda("cudaEventCreate", &event_); }
  ~Event() { cuda("cudaEventDestroy", event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(CUstream_st* stream) { cuda("cudaEventRecord", event_, stream); }
  double microseconds_since(const Event& begin) const {
    float milliseconds = 0;
    cuda("cudaEventSynchronize", event_);
    cuda("cudaEventElapsedTime", &milliseconds, begin.event_, event_);
    return 1e3 * milliseconds;
  }

 private:
  void* event_ = nullptr;
};

// ---- measuring ----

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class Stream {
 public:
  Stream() { cuda("cudaStreamCreate", &handle); }
  ~Stream() { cuda("cudaStreamDestroy", handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream_st* handle = nullptr;
};

/// Calls recorded into one CUDA graph.
class Batch {
 public:
  /// `call` enqueues on the stream that it is given.
  Batch(Stream& stream, const std::function<void(CUstream_st*)>& call, int calls)
      : stream_(stream), calls_(calls) {
    void* graph = nullptr;
    cuda("cudaStreamBeginCapture", stream.handle, 1);  // this thread's calls only
    try {
      for (int i = 0; i < calls; ++i) call(stream.handle);
    } catch (...) {  // a plan that cannot be launched leaves the stream as it was
      cuda_status("cudaStreamEndCapture", stream.handle, &graph);
      throw;
    }
    cuda("cudaStreamEndCapture", stream.handle, &graph);
    cuda("cudaGraphInstantiate", &executable_, graph, 0ULL);
    cuda("cudaGraphDestroy", graph);
    microseconds();  // the first replay uploads it
  }
  ~Batch() { cuda("cudaGraphExecDestroy", executable_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// On the GPU, per call.
  double microseconds() const {
    Event begin, end;
    begin.record(stream_.handle);
    cuda("cudaGraphLaunch", executable_, stream_.handle);
    end.record(stream_.handle);
    return end.microseconds_since(begin) / calls_;
  }

 private:
  Stream& stream_;
  int calls_;
  void* executable_ = nullptr;
};

/// How long a call keeps the host, in microseconds.
struct HostTime {
  double steady = 0;   ///< one of 16 calls in a row, the queue being short
  double waiting = 0;  ///< the first call after a wait for the GPU, in which the host's caches go cold
};

/// Medians, in turn, so that all calls meet the same clock rates; in about two seconds of calls that keep the
/// GPU as long as `device_microseconds`.
inline std::vector<HostTime> host_times(const std::vector<std::function<void()>>& calls,
                                        double device_microseconds = 0) {
  using Clock = std::chrono::steady_clock;
  constexpr int in_a_row = 16;
  const double round = device_microseconds * (in_a_row + 1) * static_cast<double>(calls.size());
  const int rounds = round * 300 > 2e6 ? std::max(9, static_cast<int>(2e6 / round)) : 300;
  const auto microseconds = [](Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  std::vector<std::vector<double>> steady(calls.size()), waiting(calls.size());
  for (int i = 0; i < rounds; ++i)
    for (std::size_t k = 0; k < calls.size(); ++k) {
      synchronize();
      const auto start = Clock::now();
      calls[k]();
      const auto first = Clock::now();
      for (int c = 0; c < in_a_row; ++c) calls[k]();
      steady[k].push_back(microseconds(Clock::now() - first) / in_a_row);
      waiting[k].push_back(microseconds(first - start));
    }
  std::vector<HostTime> medians;
  medians.reserve(calls.size());
  for (std::size_t k = 0; k < calls.size(); ++k) medians.push_back({median(steady[k]), median(waiting[k])});
  return medians;
}

/// Standard normal values, from a million of them repeated: 200 million draws would take longer than all that
/// is measured.
inline stiletto::Array random_on_gpu(const stiletto::Shape& shape, stiletto::DType dtype, unsigned seed) {
  constexpr std::size_t drawn = 1000003;
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> source(drawn);
  for (float& value : source) value = normal(generator);
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) size *= extent;
  std::vector<float> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); i += drawn)
    std::copy_n(source.begin(), std::min(drawn, values.size() - i),
                values.begin() + static_cast<std::ptrdiff_t>(i));
  const stiletto::Array wide = stiletto::from_data(values, shape);
  return (dtype == stiletto::DType::float32 ? wide : stiletto::cast(wide, dtype))
      .to(stiletto::Device::cuda(0));
}

/// The largest difference between the two results, relative to the largest value.
inline double difference(const stiletto::Array& a, const stiletto::Array& b) {
  const std::vector<float> x =
      stiletto::cast(a.to(stiletto::Device::cpu()), stiletto::DType::float32).to_vector<float>();
  const std::vector<float> y =
      stiletto::cast(b.to(stiletto::Device::cpu()), stiletto::DType::float32).to_vector<float>();
  float largest = 0, most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::fabs(y[i]));
    const float apart = std::fabs(x[i] - y[i]);
    if (!(apart <= most)) most = apart;  // NaN stays
  }
  return most / largest;
}

/// Of any of the results.
inline double difference(const List& a, const List& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const double apart = difference(a[i], b[i]); !(apart <= most)) most = apart;
  return most;
}

/// What both sides read, and what each of them writes.
struct WorkMemory {
  List operands, ours, theirs;

  explicit WorkMemory(const Workload& work) {
    for (const Operand& operand : work.operands)
      operands.push_back(operand.view(
          random_on_gpu(operand.stored, work.dtype, static_cast<unsigned>(operands.size() + 1))));
    if (work.further)
      for (const stiletto::Array& array : work.further(operands)) operands.push_back(array);
    for (const Operand& result : work.results)
      for (List* side : {&ours, &theirs})
        side->push_back(result.view(stiletto::zeros(result.stored, work.dtype, stiletto::Device::cuda(0))));
  }
  /// As FrontendGraph takes them.
  std::vector<void*> pointers() const {
    std::vector<void*> all;
    all.reserve(operands.size() + theirs.size());
    for (const List* list : {&operands, &theirs})
      for (const stiletto::Array& array : *list) all.push_back(array.raw_data());
    return all;
  }
};

/// The workload as a function (results, operands) that writes the results.
inline auto compile_in_place(const Workload& work, const WorkMemory& memory,
                             const stiletto::CompileOptions& options = {}) {
  return stiletto::compile(
      options,
      [&work](const List& results, const List& operands) {
        const List values = work.function(operands);
        for (std::size_t i = 0; i < values.size(); ++i) stiletto::assign(results[i], values[i]);
      },
      memory.ours, memory.operands);
}

inline std::string plan_of(const stiletto::Graph& graph) {
  const std::string text = graph.to_string();
  const std::size_t at = text.find("plan\n");
  std::string plan = at == std::string::npos ? text : text.substr(at + 5);
  plan.erase(plan.find_last_not_of(" \n") + 1);
  plan.erase(0, plan.find_first_not_of(' '));
  return plan;
}
