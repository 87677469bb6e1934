// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/reasons.hpp"

#include <cctype>

#include "core/text.hpp"

namespace stiletto::detail::cudnn {
namespace {

constexpr const char* engine_mark = "{\"engineId\":";  // begins what one engine says (cuDNN 9.19, 9.27)
constexpr const char* status_mark = "CUDNN_STATUS_";
constexpr const char* reason_mark = "; Reason: ";

/// The first reason of one engine's part: the later ones only say that the one before failed.
std::string first_reason(const std::string& part) {
  const std::size_t reason = part.find(reason_mark);
  if (reason == std::string::npos) return part;
  const std::size_t text_begin = reason + std::string(reason_mark).size();
  std::size_t end = part.find(" Warning: ", text_begin);
  if (end == std::string::npos) end = part.size();
  const std::size_t status = part.rfind(status_mark, reason);
  std::string name;
  if (status != std::string::npos) {
    const std::size_t name_begin = status + std::string(status_mark).size();
    name = part.substr(name_begin, reason - name_begin) + ": ";
  }
  return name + part.substr(text_begin, end - text_begin);
}

}  // namespace

std::string one_line(const std::string& message) {
  std::string result;
  for (char c : message) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (space && (result.empty() || result.back() == ' ')) continue;
    result += space ? ' ' : c;
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

std::vector<EngineReason> engine_reasons(const std::string& step, const std::string& message) {
  const std::string line = one_line(message);
  std::vector<EngineReason> reasons;
  const std::string mark = engine_mark;
  for (std::size_t at = line.find(mark); at != std::string::npos;) {
    const std::size_t next = line.find(mark, at + mark.size());
    const std::string part = line.substr(at, next == std::string::npos ? next : next - at);
    const std::size_t digits = part.find_first_not_of("0123456789", mark.size());
    reasons.push_back({text("eng", part.substr(mark.size(), digits - mark.size())), first_reason(part)});
    at = next;
  }
  if (reasons.empty()) reasons.push_back({step, line});
  return reasons;
}

}  // namespace stiletto::detail::cudnn
