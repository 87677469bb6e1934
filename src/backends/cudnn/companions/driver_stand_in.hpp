// SPDX-License-Identifier: Apache-2.0
// What the two halves of the driver stand-in share: the functions that answer are written by hand in
// driver_stand_in.cpp; all others, which refuse, are generated from cuda.h (cmake/companions.cmake).
#pragma once

/// What every function returns that cannot do its work without a GPU: CUDA_ERROR_STUB_LIBRARY, the answer of
/// the toolkit's own stub.
inline constexpr int stiletto_no_driver = 34;

struct StilettoDriverFunction {
  const char* name;
  void* function;
};

/// All functions of the driver, generated; the last has no name.
extern const StilettoDriverFunction stiletto_driver_functions[];
