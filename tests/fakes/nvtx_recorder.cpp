// SPDX-License-Identifier: Apache-2.0
// A profiler that writes on standard error what ranges begin and end, "[ NAME" and "]": NVTX loads the
// library that NVTX_INJECTION64_PATH names and gives it the places of its functions. Without NVTX's header,
// whose numbers and types for this are below.
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace {

constexpr std::uint32_t callbacks_table = 1;              // NVTX_ETID_CALLBACKS
constexpr std::uint32_t core_module = 1;                  // NVTX_CB_MODULE_CORE
constexpr unsigned range_push_ascii = 9, range_pop = 11;  // NVTX_CBID_CORE_RangePushA, ..._RangePop

using Function = void (*)();
struct Callbacks {  // NvtxExportTableCallbacks
  std::size_t size;
  int (*function_table)(std::uint32_t module, Function*** table, unsigned* size);
};

int push(const char* name) {
  std::fprintf(stderr, "[ %s\n", name);
  return 0;
}
int pop() {
  std::fputs("]\n", stderr);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*export_table)(std::uint32_t)) {
  const auto* callbacks = static_cast<const Callbacks*>(export_table(callbacks_table));
  Function** table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->function_table(core_module, &table, &size) == 0) return 0;
  if (size <= range_pop) return 0;
  *table[range_push_ascii] = reinterpret_cast<Function>(&push);
  *table[range_pop] = reinterpret_cast<Function>(&pop);
  return 1;
}
