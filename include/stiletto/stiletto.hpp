// SPDX-License-Identifier: Apache-2.0
// All of Stiletto's public interface.
#pragma once
#include "stiletto/array.hpp"
#include "stiletto/blockscaled.hpp"
#include "stiletto/compile.hpp"
#include "stiletto/cuda.hpp"
#include "stiletto/device.hpp"
#include "stiletto/dtype.hpp"
#include "stiletto/error.hpp"
#include "stiletto/log.hpp"
#include "stiletto/nn.hpp"
#include "stiletto/ops.hpp"
