// SPDX-License-Identifier: Apache-2.0
// Whether products of float32 may multiply in TF32, for the whole process.
#pragma once

namespace stiletto::detail {

/// What NVIDIA's libraries would read themselves: no NVIDIA_TF32_OVERRIDE=0.
bool environment_allows_tf32();

bool tf32_allowed();

/// The same, for good: set_allow_tf32 throws from now on.
bool settle_tf32();

}  // namespace stiletto::detail
