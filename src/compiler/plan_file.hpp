// SPDX-License-Identifier: Apache-2.0
// Files of plans: a few lines for people, then bytes with their length and checksum.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace stiletto::detail {

/// Writes the whole file or none of it: others see the old file until the new one is complete.
/// A link stays one, and a file that is there keeps its mode. `about`: lines for people. ArgumentError says
/// what the system refused.
void write_plan_file(const std::filesystem::path& path, const std::string& about, const std::string& body);

/// Files that write_plan_file began in the folder more than a day ago, in processes that ended meanwhile.
void remove_unfinished(const std::filesystem::path& folder);

/// The body. ArgumentError where the file cannot be read, is no plan, was written by another version of
/// Stiletto, or is not whole.
std::string read_plan_file(const std::filesystem::path& path);

/// Of file names and checksums; not against people who mean harm.
std::uint64_t checksum(const std::string& bytes, std::uint64_t seed = 0);

}  // namespace stiletto::detail
