// SPDX-License-Identifier: Apache-2.0
// Gigabytes of zeros that take memory only where they are written, for arrays of which little is looked at.
#pragma once
#include <sys/mman.h>

#include <cstddef>

#include "support/layouts.hpp"

namespace support {

class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0)) {
    if (*this) madvise(data_, bytes, MADV_NOHUGEPAGE);  // a written element would take 2 MiB
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (*this) munmap(data_, bytes_);
  }
  /// Where a machine promises no more memory than it has there is none.
  explicit operator bool() const { return data_ != MAP_FAILED; }
  Array array(const Extents& shape, DType dtype) const {
    return stiletto::wrap(data_, dims(shape), dtype, stiletto::Device::cpu());
  }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace support
