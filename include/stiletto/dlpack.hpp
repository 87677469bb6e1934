// SPDX-License-Identifier: Apache-2.0
// Arrays to and from other libraries without a copy, by the DLPack convention
// (https://dmlc.github.io/dlpack/latest/). Include dlpack.h beside it to make or read the structures; both
// their forms are taken, the plain one and the versioned one since DLPack 1.0.
#pragma once
#include <optional>

#include "stiletto/array.hpp"
#include "stiletto/export.hpp"

struct DLManagedTensor;
struct DLManagedTensorVersioned;
struct CUstream_st;

namespace stiletto {

/// An array on the producer's memory, of any strides. It takes the tensor over: the deleter is called when
/// the last array on it goes, in that thread. On a GPU the current stream waits for what has been queued on
/// `producer`, where that is given; after the last call that uses the array the producer's memory is used on
/// our stream still, so drop the array in that stream's order, or synchronise before.
/// Throws DTypeError, DeviceError, ShapeError or ArgumentError for what has no counterpart; the tensor is
/// then still the caller's. A tensor marked read-only may be read; do not store to it.
STILETTO_API Array from_dlpack(DLManagedTensor* tensor, std::optional<CUstream_st*> producer = {});
STILETTO_API Array from_dlpack(DLManagedTensorVersioned* tensor, std::optional<CUstream_st*> producer = {});

/// The array's memory as a tensor, which keeps it until its deleter is called. On a GPU `consumer`, where
/// given, waits for what has been queued on the current stream. Throws ArgumentError for specs and
/// float4_e2m1, TraceError for traced arrays.
STILETTO_API DLManagedTensor* to_dlpack(const Array& array, std::optional<CUstream_st*> consumer = {});
STILETTO_API DLManagedTensorVersioned* to_dlpack_versioned(const Array& array,
                                                           std::optional<CUstream_st*> consumer = {});

}  // namespace stiletto
