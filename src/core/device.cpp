// SPDX-License-Identifier: Apache-2.0
// Device names and their text.
#include "stiletto/device.hpp"

#include <ostream>

#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto {

Device Device::cuda(int index) {
  if (index < 0) throw DeviceError(detail::text("Device::cuda(", index, "): GPUs are numbered from 0"));
  return Device(index);
}

std::ostream& operator<<(std::ostream& out, const Device& device) {
  return device.is_cpu() ? out << "cpu" : out << "cuda:" << device.index();
}

}  // namespace stiletto
