// SPDX-License-Identifier: Apache-2.0
// jit's cache: finds the executable of a trace by everything that the plan depends on.
#pragma once
#include <cstdint>
#include <memory>

#include "compiler/executable.hpp"

namespace stiletto::detail {

/// The key's hash; equality is checked member by member on a hit.
std::uint64_t hash_of(const Trace& trace, const CompileOptions& options);

/// Looks the trace up, or builds and remembers its executable (see Executable::build). That no engine takes
/// it is remembered as well, and thrown again with the same text; what else building throws leaves the cache
/// as it was.
std::shared_ptr<const Executable> find_or_build(const Trace& trace, const CompileOptions& options,
                                                std::span<const Array> examples);

}  // namespace stiletto::detail
