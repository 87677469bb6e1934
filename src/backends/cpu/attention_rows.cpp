// SPDX-License-Identifier: Apache-2.0
// Where rows of attention's arrays lie, and how they are converted.
#include "backends/cpu/attention_rows.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels.hpp"
#include "backends/cpu/tensor_rows.hpp"
#include "core/dtype_info.hpp"

namespace stiletto::detail::cpu {
namespace {

template <class T>
constexpr std::size_t register_number =
    static_cast<std::size_t>(sizeof(T) == 4 ? Register::f32 : Register::f64);
std::size_t number(DType dtype) { return static_cast<std::size_t>(dtype); }
std::size_t log2_bytes(DType dtype) {
  return static_cast<std::size_t>(std::countr_zero(bytes_for(dtype, 1)));
}

constexpr std::int64_t chunk = 256;  // elements that pass through a buffer on the stack

template <class T>
void load_contiguous(T* out, const void* in, DType dtype, std::int64_t count) {
  const Kernels& table = kernels();
  if (const LoadKernel load = table.load[number(dtype)][register_number<T>]) {
    load(out, in, static_cast<std::size_t>(count));
    return;
  }
  const double* const values = static_cast<const double*>(in);  // the only dtype wider than T
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(values[i]);
}

template <class T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::int64_t last_stride(const TensorView& view) { return view.strides[view.strides.size() - 1]; }

}  // namespace

std::int64_t element_offset(const TensorView& view, std::int64_t a, std::int64_t b, std::int64_t c) {
  const std::array<std::int64_t, 3> index{a, b, c};
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis)
    if (view.shape[axis] != 1) offset += index[axis] * view.strides[axis];
  return offset;
}

std::int64_t integer_at(const TensorView& view, std::int64_t element) {
  const std::byte* const from = view.data + byte_offset(view.dtype, element);
  if (view.dtype == DType::int32) return read_as<std::int32_t>(from);
  if (view.dtype == DType::int64) return read_as<std::int64_t>(from);
  constexpr double limit = 9223372036854774784;  // the largest double below 2⁶³
  return static_cast<std::int64_t>(std::clamp(read_as<double>(from), -limit, limit));
}

float float_at(const TensorView& view, std::int64_t element) {
  const std::byte* const from = view.data + byte_offset(view.dtype, element);
  if (view.dtype == DType::float32) return read_as<float>(from);
  return static_cast<float>(read_as<double>(from));
}

std::int64_t SequenceRows::offset(const TensorView& view, std::int64_t batch_entry, std::int64_t place,
                                  std::int64_t head) const {
  if (offsets != nullptr) {
    const std::int64_t first = integer_at(*offsets, batch_entry * offsets->strides[0]) / row_elements;
    return element_offset(view, first + place, head, 0);
  }
  if (table == nullptr) return element_offset(view, batch_entry, place, head);
  const std::int64_t page_size = view.shape[1];
  const std::int64_t page =
      integer_at(*table, batch_entry * table->strides[0] + place / page_size * table->strides[1]);
  return element_offset(view, std::clamp<std::int64_t>(page, 0, view.shape[0] - 1), place % page_size, head);
}

std::int64_t SequenceRows::rows_from(std::int64_t batch_entry) const {
  const std::int64_t begin = integer_at(*offsets, batch_entry * offsets->strides[0]);
  return begin < 0 ? 0 : std::max<std::int64_t>(0, rows - begin / row_elements);
}

template <class T>
void load_row(T* out, const TensorView& view, std::int64_t offset, std::int64_t count) {
  const std::byte* const in = view.data + byte_offset(view.dtype, offset);
  const std::int64_t stride = last_stride(view);
  if (stride == 1) {
    load_contiguous(out, in, view.dtype, count);
  } else {
    alignas(64) std::array<std::byte, chunk * sizeof(double)> gathered;
    for (std::int64_t i = 0; i < count; i += chunk) {
      const std::int64_t n = std::min(chunk, count - i);
      kernels().gather[log2_bytes(view.dtype)](gathered.data(), in + byte_offset(view.dtype, i * stride),
                                               stride, static_cast<std::size_t>(n));
      load_contiguous(out + i, gathered.data(), view.dtype, n);
    }
  }
  std::fill(out + count, out + step_of<T>(count), T{0});
}

template <class T>
void store_row(const TensorView& view, std::int64_t offset, const T* in, std::int64_t count) {
  std::byte* const out = view.data + byte_offset(view.dtype, offset);
  const std::int64_t stride = last_stride(view);
  const StoreKernel store = kernels().store[register_number<T>][number(view.dtype)];
  if (stride == 1) return store(out, in, static_cast<std::size_t>(count));
  alignas(64) std::array<std::byte, chunk * sizeof(double)> rounded;
  for (std::int64_t i = 0; i < count; i += chunk) {
    const auto n = static_cast<std::size_t>(std::min(chunk, count - i));
    store(rounded.data(), in + i, n);
    kernels().scatter[log2_bytes(view.dtype)](out + byte_offset(view.dtype, i * stride), stride,
                                              rounded.data(), n);
  }
}

template <class T>
void load_keys(T* out, const TensorView& view, const SequenceRows& rows, std::int64_t batch_entry,
               std::int64_t head_kv, const KeyRange& keys) {
  const std::int64_t width = view.shape[view.shape.size() - 1];
  for (std::int64_t key = keys.first; key < keys.last; ++key, out += step_of<T>(width))
    load_row(out, view, rows.offset(view, batch_entry, key, head_kv), width);
}

void prefetch_keys(const TensorView& view, const SequenceRows& rows, std::int64_t batch_entry,
                   std::int64_t head_kv, const KeyRange& keys) {
  constexpr std::int64_t line = 64;
  if (last_stride(view) != 1) return;
  const std::int64_t bytes = byte_offset(view.dtype, view.shape[view.shape.size() - 1]);
  for (std::int64_t key = keys.first; key < keys.last; ++key) {
    const std::byte* const row =
        view.data + byte_offset(view.dtype, rows.offset(view, batch_entry, key, head_kv));
    for (std::int64_t i = 0; i < bytes; i += line) __builtin_prefetch(row + i, 0, 2);
  }
}

void clear_rows(const TensorView& view) {
  if (view.data == nullptr) return;
  const AxisGroup row = axis_group(view, 1, view.shape.size());
  static constexpr std::array<float, chunk> zeros{};
  for_each_piece(view.shape[0], row.count, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      for (std::int64_t done = 0; done < row.count; done += chunk)
        write(view, i * view.strides[0], row, done, std::min(chunk, row.count - done), zeros.data());
  });
}

template void load_row(float*, const TensorView&, std::int64_t, std::int64_t);
template void load_row(double*, const TensorView&, std::int64_t, std::int64_t);
template void store_row(const TensorView&, std::int64_t, const float*, std::int64_t);
template void store_row(const TensorView&, std::int64_t, const double*, std::int64_t);
template void load_keys(float*, const TensorView&, const SequenceRows&, std::int64_t, std::int64_t,
                        const KeyRange&);
template void load_keys(double*, const TensorView&, const SequenceRows&, std::int64_t, std::int64_t,
                        const KeyRange&);

}  // namespace stiletto::detail::cpu
