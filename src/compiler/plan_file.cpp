// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan_file.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/archive.hpp"
#include "core/hash.hpp"
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
  std::uint64_t sum = 0xCBF29CE484222325ULL ^ seed;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    sum = folded_product(sum ^ word) ^ 0x100000001B3ULL;
  }
  return sum ^ bytes.size();
}

void write_plan_file(const std::filesystem::path& given, const std::string& about, const std::string& body) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(given, error);  // a link stays one
  if (error) not_written(given, error.value());
  if (const auto kind = std::filesystem::status(path, error).type();
      kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular)
    refuse(given, "cannot be written: it is there and is no regular file");
  // Beside its place, because a file can only be renamed within its file system; each writer its own.
  static std::atomic<unsigned> count{0};
  const std::filesystem::path unfinished =
      path.parent_path() / text(".stiletto-", getpid(), "-", count.fetch_add(1), ".unfinished");
  errno = 0;
  std::ofstream out(unfinished, std::ios::binary);
  if (!out) not_written(given, errno);
  out << first_line << '\n' << version_line << '\n';
  std::istringstream lines(about);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) out << line << '\n';  // an empty one ends them
  Writer ends;
  ends(static_cast<std::uint64_t>(body.size()), checksum(body));
  out << '\n' << ends.bytes << body;
  out.close();
  const int failure = errno;
  if (out) std::filesystem::rename(unfinished, path, error);
  if (out && !error) return;
  std::error_code ignored;
  std::filesystem::remove(unfinished, ignored);
  not_written(given, out ? error.value() : failure);
}

std::string read_plan_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::directory) refuse(path, "is a folder, not a saved plan");
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found)
    refuse(path, "is no regular file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(path, text("cannot be read: ", std::strerror(errno)));
  constexpr std::size_t longest_head = 65536;  // what follows is read when its length is right
  std::string head(longest_head, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  in.clear();
  std::istringstream lines(head);
  std::string line;
  if (!std::getline(lines, line) || line != first_line) refuse(path, "is no saved plan");
  if (!std::getline(lines, line)) refuse(path, "is no saved plan");
  if (line != version_line)
    refuse(path, text("is of another Stiletto (", line, "; this is ", version_line, "); save it again"));
  const std::size_t blank = head.find("\n\n");
  std::uint64_t size = 0, sum = 0;
  constexpr std::size_t ends = sizeof size + sizeof sum;
  if (blank == std::string::npos || blank + 2 + ends > head.size())
    refuse(path, "ends too early; save it again");
  Reader(std::string_view(head).substr(blank + 2, ends))(size, sum);
  const std::size_t begin = blank + 2 + ends;
  const std::uintmax_t length = std::filesystem::file_size(path, error);
  if (error || length < begin || length - begin < size) refuse(path, "ends too early; save it again");
  if (length - begin > size) refuse(path, "is damaged; save it again");
  std::string body(static_cast<std::size_t>(size), '\0');
  in.seekg(static_cast<std::streamoff>(begin));
  in.read(body.data(), static_cast<std::streamsize>(body.size()));
  if (!in || checksum(body) != sum) refuse(path, "is damaged; save it again");
  return body;
}

}  // namespace stiletto::detail
