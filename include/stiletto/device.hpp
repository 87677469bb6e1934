// SPDX-License-Identifier: Apache-2.0
// Where an array's memory lies.
#pragma once
#include <iosfwd>

#include "stiletto/export.hpp"

namespace stiletto {

class Device {
 public:
  static Device cpu() { return Device(-1); }
  /// A negative index throws DeviceError. Whether the GPU is there is asked when memory or a plan is wanted
  /// on it.
  STILETTO_API static Device cuda(int index = 0);
  bool is_cpu() const { return index_ < 0; }
  bool is_cuda() const { return index_ >= 0; }
  /// The GPU's number; 0 for the CPU.
  int index() const { return index_ < 0 ? 0 : index_; }
  bool operator==(const Device&) const = default;

 private:
  explicit Device(int index) : index_(index) {}
  int index_;
};

STILETTO_API std::ostream& operator<<(std::ostream&, const Device&);

}  // namespace stiletto
