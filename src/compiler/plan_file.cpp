// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan_file.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/archive.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace {

constexpr const char* first_line = "Stiletto plan";
constexpr const char* version_line = "version " STILETTO_VERSION ", format 1";

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw ArgumentError(text(path.string(), " ", what));
}

[[noreturn]] void not_written(const std::filesystem::path& path, int error) {
  refuse(path, text("cannot be written: ", std::strerror(error)));
}

}  // namespace

std::uint64_t checksum(const std::string& bytes, std::uint64_t seed) {
  // FNV-1a over words, each mixed by a 128-bit product, so that single bits reach all of the sum.
  std::uint64_t sum = 0xCBF29CE484222325ULL ^ seed;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    __extension__ using Wide = unsigned __int128;
    const auto product = static_cast<Wide>(sum ^ word) * 0x9E3779B97F4A7C15ULL;
    sum = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U) ^ 0x100000001B3ULL;
  }
  return sum ^ bytes.size();
}

void write_plan_file(const std::filesystem::path& path, const std::string& about, const std::string& body) {
  // Beside its place, because a file can only be renamed within its file system; each writer its own.
  static std::atomic<unsigned> count{0};
  const std::filesystem::path unfinished =
      text(path.string(), ".", getpid(), ".", count.fetch_add(1), ".unfinished");
  {
    errno = 0;
    std::ofstream out(unfinished, std::ios::binary);
    if (!out) not_written(path, errno);
    out << first_line << '\n' << version_line << '\n';
    std::istringstream lines(about);
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) out << line << '\n';  // an empty one ends them
    Writer ends;
    ends(static_cast<std::uint64_t>(body.size()), checksum(body));
    out << '\n' << ends.bytes << body;
    out.close();
    if (!out) {
      const int error = errno;
      std::filesystem::remove(unfinished);
      not_written(path, error);
    }
  }
  std::error_code error;
  std::filesystem::rename(unfinished, path, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(unfinished, ignored);
  not_written(path, error.value());
}

std::string read_plan_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse(path, "is a folder, not a saved plan");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(path, text("cannot be read: ", std::strerror(errno)));
  std::string line;
  if (!std::getline(in, line) || line != first_line) refuse(path, "is no saved plan");
  if (!std::getline(in, line)) refuse(path, "is no saved plan");
  if (line != version_line)
    refuse(path, text("is of another Stiletto (", line, "; this is ", version_line, "); save it again"));
  while (std::getline(in, line) && !line.empty()) {
  }
  std::ostringstream rest;
  rest << in.rdbuf();
  const std::string bytes = rest.str();
  std::uint64_t size = 0, sum = 0;
  try {
    Reader reader(bytes);
    reader(size, sum);
  } catch (const ArchiveError& damage) {
    refuse(path, text(damage.what(), "; save it again"));
  }
  std::string body = bytes.substr(sizeof size + sizeof sum);
  if (body.size() < size) refuse(path, "ends too early; save it again");
  if (body.size() > size || checksum(body) != sum) refuse(path, "is damaged; save it again");
  return body;
}

}  // namespace stiletto::detail
