// SPDX-License-Identifier: Apache-2.0
// What lies behind a block-scaled array.
#pragma once
#include <utility>

#include "stiletto/blockscaled.hpp"

namespace stiletto {

struct BlockscaledAccess {
  static BlockscaledArray make(Array elements, Array scales) {
    return BlockscaledArray(std::move(elements), std::move(scales));
  }
  static const Array& elements(const BlockscaledArray& array) { return array.elements_; }
  static const Array& scales(const BlockscaledArray& array) { return array.scales_; }
};

}  // namespace stiletto
