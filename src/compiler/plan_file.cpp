// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string_view>
#include <utility>

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

constexpr const char* unfinished_begin = ".stiletto-";
constexpr const char* unfinished_end = ".unfinished";

[[noreturn]] void not_written(const std::filesystem::path& path, int error) {
  refuse(path, text("cannot be written: ", std::strerror(error)));
}

/// What the path names, through links that lead nowhere yet as well.
std::filesystem::path end_of_links(std::filesystem::path path, std::error_code& error) {
  constexpr int most = 40;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(path, error)); ++links) {
    if (links == most) error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
    if (error) return path;
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  error.clear();  // what is not there yet
  return std::filesystem::weakly_canonical(path, error);
}

/// A file beside the one that it becomes, because it can only be renamed within its file system; removed
/// unless finished. Its name is random: process ids are the same in containers that share a folder.
class Unfinished {
 public:
  explicit Unfinished(const std::filesystem::path& folder) {
    std::random_device random;
    do {
      path_ = folder / text(unfinished_begin, random(), '-', random(), unfinished_end);
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (!opened() && errno == EEXIST);
    there_ = opened();
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    const int error = errno;
    if (opened()) ::close(descriptor_);
    if (there_) ::unlink(path_.c_str());
    errno = error;
  }
  bool opened() const { return descriptor_ >= 0; }
  bool set_mode(std::filesystem::perms mode) const {
    return ::fchmod(descriptor_, static_cast<mode_t>(mode & std::filesystem::perms::mask)) == 0;
  }
  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) return false;
      bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
    return true;
  }
  bool finish(const std::filesystem::path& path) {
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0 || ::rename(path_.c_str(), path.c_str()) != 0) return false;
    there_ = false;
    return true;
  }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool there_ = false;
};

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
  const std::filesystem::path path = end_of_links(given, error);
  if (error) not_written(given, error.value());
  const std::filesystem::file_status before = std::filesystem::status(path, error);
  const bool replaces = before.type() == std::filesystem::file_type::regular;
  if (!replaces && before.type() != std::filesystem::file_type::not_found)
    refuse(given, "cannot be written: it is there and is no regular file");
  std::ostringstream head;
  head << first_line << '\n' << version_line << '\n';
  std::istringstream lines(about);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) head << line << '\n';  // an empty one ends them
  Writer ends;
  ends(static_cast<std::uint64_t>(body.size()), checksum(body));
  head << '\n' << ends.bytes;
  Unfinished file(path.parent_path());
  if (!file.opened()) not_written(given, errno);
  if (replaces && !file.set_mode(before.permissions())) not_written(given, errno);
  if (!file.write(head.str()) || !file.write(body) || !file.finish(path)) not_written(given, errno);
}

void remove_unfinished(const std::filesystem::path& folder) {
  const auto yesterday = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    std::error_code other;
    if (name.starts_with(unfinished_begin) && name.ends_with(unfinished_end) &&
        file->is_regular_file(other) && file->last_write_time(other) < yesterday && !other)
      std::filesystem::remove(file->path(), other);
  }
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
