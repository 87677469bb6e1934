// SPDX-License-Identifier: Apache-2.0
// What a program that uses cudnn-frontend itself does with it. Only frontend_graphs.cpp includes its headers,
// which take half a minute to compile.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stiletto/cudnn.hpp"

struct cudnnContext;
struct CUstream_st;

namespace support {

using NativeGraph = std::shared_ptr<cudnn_frontend::graph::Graph>;
using NativePack = std::vector<std::pair<std::int64_t, void*>>;

/// CUDNN_FRONTEND_VERSION of the headers.
int frontend_version();

NativeGraph empty_graph();
/// Properties of a GPU, as Target::to_json() has them, for an empty graph.
void set_target(const NativeGraph& graph, const std::string& json, int sm);

/// y = relu(x·w + b) · factor of float16, x (1, 64, 128), w (1, 128, 96), b (1, 1, 96).
struct Layer {
  static constexpr std::int64_t x = 11, w = 12, bias = 13, factor = 14, y = 21, product = 31, unused = 41;
  enum class Output { row_major, transposed, gaps, bits };
  Output output = Output::row_major;
  bool factor_has_value = false;  // 2, in the graph
  std::size_t unused_rank = 3;
  bool unused_has_type = true;
  bool has_types = true;    // of the graph; its tensors then have their own
  bool in_float64 = false;  // of all, which cuDNN has no engine for

  NativeGraph describe(NativeGraph graph = empty_graph()) const;
};

/// Attention of float16 (1, 2, 64, 32), K and V (1, 2, 96, 32), none of which has a data type but the
/// graph's; with O the statistics of its rows, or its gradients.
struct Attention {
  static constexpr std::int64_t q = 1, k = 2, v = 3, o = 4, stats = 5, d_o = 6, d_q = 7, d_k = 8, d_v = 9;
  bool backward = false;

  NativeGraph describe(NativeGraph graph = empty_graph()) const;
};

/// As far as its operation graph.
void lower(const NativeGraph& graph, cudnnContext* handle);
/// To a plan; std::runtime_error with cuDNN's words. Without a handle for the graph's target.
void build(const NativeGraph& graph, cudnnContext* handle);
std::vector<std::uint8_t> serialize(const NativeGraph& graph);

/// The plan that was serialised, for a GPU that is not there.
NativeGraph restored(const std::vector<std::uint8_t>& data, const std::string& json, int sm);

/// After a plan has been built: the uids that execute() wants, ascending, its scratch, and the plan's name.
std::vector<std::int64_t> uids_of(const NativeGraph& graph);
std::int64_t workspace_of(const NativeGraph& graph);
std::string plan_of(const NativeGraph& graph);

/// A cuDNN handle of the program's own.
class Handle {
 public:
  explicit Handle(CUstream_st* stream);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();
  cudnnContext* get() const { return handle_; }

 private:
  cudnnContext* handle_ = nullptr;
};
void execute(const NativeGraph& graph, const Handle& handle, const NativePack& pack, void* workspace);

}  // namespace support
