// SPDX-License-Identifier: Apache-2.0
#include "plans/support_page.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "backends/cudnn/libraries.hpp"
#include "graph/op_table.hpp"

namespace plans {
namespace {

using support::Example;
using Set = std::set<std::string>;
namespace detail = stiletto::detail;

std::string cudnn_text() { return detail::cudnn::libraries_for_planning().cudnn.version; }
std::string heading(const std::string& version) { return "## cuDNN " + version + "\n"; }
std::string heading() { return heading(cudnn_text()); }

/// "h200" is shown as H200, "rtx4090" as RTX 4090.
std::string shown(const std::string& device) {
  std::string result = device;
  if (device.starts_with("rtx")) result.insert(3, " ");
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}
std::string target_of(const std::string& text) {
  for (const std::string& device : support_devices())
    if (shown(device) == text) return device;
  throw std::runtime_error("docs/support.md names a device that is not among the targets: " + text);
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> result;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + separator.size()) {
    end = text.find(separator, begin);
    result.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return result;
}
std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) result += (i == 0 ? "" : separator) + parts[i];
  return result;
}

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

/// So that a run of many minutes shows where it is.
void report(const std::string& what, std::size_t done, std::size_t of) {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  std::fprintf(stderr, "%zu of %zu (%zu MB): %s\n", done, of, resident * 4096 >> 20U, what.c_str());
}

std::string table_of_kinds() {
  const std::vector<std::string> gpus(support_devices().begin() + 1, support_devices().end());
  std::string result = "| |", rule = "|---|";
  for (const std::string& gpu : gpus) result += " " + shown(gpu) + " |", rule += "---|";
  result += "\n" + rule + "\n";
  const std::vector<Row> kinds = support_kinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    report(kinds[i].name, i, kinds.size());
    result += "| " + kinds[i].name + " |";
    for (const std::string& gpu : gpus) result += ask(kinds[i], gpu).plan ? " yes |" : " no |";
    result += "\n";
  }
  return result;
}

std::string cell_of(const Example& example, DType dtype) {
  const std::optional<bool> cpu = cpu_answer(example, dtype);
  if (!cpu) return "";
  Set devices;
  if (*cpu) devices.insert("cpu");
  const Row row = row_of(example, dtype);
  for (const std::string& device : support_devices())
    if (device != "cpu" && ask(row, device).plan) devices.insert(device);
  return cell_text(devices);
}

/// The lines that print_cells writes of these examples, from a process of their own: with some versions cuDNN
/// keeps megabytes of each plan.
std::vector<std::string> lines_of_child(std::size_t first, std::size_t last) {
  const std::string command = "exec '" + std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --cells " + std::to_string(first) + " " + std::to_string(last);
  FILE* const child = popen(command.c_str(), "r");
  if (child == nullptr) throw std::runtime_error("no process can be started");
  std::string text;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, child)) > 0;) text.append(buffer, n);
  std::vector<std::string> lines = split(text, "\n");
  lines.pop_back();
  if (pclose(child) != 0 || lines.size() != last - first)
    throw std::runtime_error("the process that builds plans failed: " + command);
  return lines;
}

/// Operations of one family whose cells agree share a line.
std::string table_of_operations() {
  constexpr std::size_t at_once = 8;
  struct Line {
    detail::Family family;
    std::string cells;
    std::vector<std::string> names;
  };
  std::vector<Line> lines;
  const std::vector<Example>& examples = support::operation_examples();
  for (std::size_t first = 0; first < examples.size(); first += at_once) {
    const std::size_t last = std::min(first + at_once, examples.size());
    const std::vector<std::string> cells = lines_of_child(first, last);
    for (std::size_t i = first; i < last; ++i) {
      const detail::Family family = detail::row_of(examples[i].op).family;
      const auto same = std::ranges::find_if(
          lines, [&](const Line& l) { return l.family == family && l.cells == cells[i - first]; });
      if (same == lines.end())
        lines.push_back({family, cells[i - first], {examples[i].name()}});
      else
        same->names.push_back(examples[i].name());
    }
  }
  std::string result = "| operation |", rule = "|---|";
  for (const DType dtype : support_dtypes)
    result += std::string(" ") + stiletto::to_string(dtype) + " |", rule += "---|";
  result += "\n" + rule + "\n";
  for (const Line& line : lines) result += "| " + joined(line.names, ", ") + " | " + line.cells + " |\n";
  return result;
}

/// Where the version's tables are in the page, or its end.
std::pair<std::size_t, std::size_t> place(const std::string& page, const std::string& version) {
  const std::size_t begin = page.find(heading(version));
  if (begin == std::string::npos) return {page.size(), page.size()};
  return {begin, std::min(page.find("\n## ", begin), page.size() - 1) + 1};
}

}  // namespace

const std::vector<std::string>& support_devices() {
  static const auto& all = *new std::vector<std::string>([] {
    std::vector<std::string> result = stiletto::Target::names();
    std::ranges::sort(result);
    result.insert(result.begin(), "cpu");
    return result;
  }());
  return all;
}

Row row_of(const Example& example, DType dtype) {
  std::vector<Operand> operands;
  for (const support::ExampleOperand& operand : example.operands(dtype))
    operands.push_back({operand.shape, operand.dtype, operand.strides});
  return {"", example.call, operands};
}

std::optional<bool> cpu_answer(const Example& example, DType dtype) {
  try {
    return ask(row_of(example, dtype), "cpu").plan;
  } catch (const stiletto::DTypeError&) {
    return std::nullopt;
  } catch (const stiletto::ShapeError&) {
    if (dtype != DType::float4_e2m1) throw;
    return std::nullopt;
  }
}

std::string cell_text(const Set& devices) {
  std::vector<std::string> with, without;
  for (const std::string& device : support_devices())
    (devices.contains(device) ? with : without).push_back(shown(device));
  if (with.empty()) return "none";
  if (without.empty()) return "all";
  return without.size() < with.size() ? "all but " + joined(without, ", ") : joined(with, ", ");
}

Set devices_of_cell(const std::string& text) {
  const std::vector<std::string>& all = support_devices();
  if (text == "none") return {};
  if (text == "all") return {all.begin(), all.end()};
  const std::string but = "all but ";
  const bool listed = !text.starts_with(but);
  Set result;
  if (!listed) result.insert(all.begin(), all.end());
  for (const std::string& name : split(listed ? text : text.substr(but.size()), ", ")) {
    if (listed)
      result.insert(target_of(name));
    else
      result.erase(target_of(name));
  }
  return result;
}

SupportCells read_operations(const std::string& page, const std::string& version) {
  const auto [begin, end] = place(page, version);
  SupportCells result;
  bool reading = false;
  for (const std::string& line : split(page.substr(begin, end - begin), "\n")) {
    if (line.starts_with("| operation |")) reading = true;
    if (!reading || !line.starts_with("| `")) continue;
    std::vector<std::string> cells = split(line.substr(2, line.size() - 4), " | ");
    for (const std::string& name : split(cells[0], ", "))
      for (std::size_t i = 0; i < support_dtypes.size() && i + 1 < cells.size(); ++i)
        if (!cells[i + 1].empty()) result[{name, support_dtypes[i]}] = devices_of_cell(cells[i + 1]);
  }
  return result;
}

std::vector<std::string> versions_of(const std::string& page) {
  std::vector<std::string> result;
  const std::string mark = "\n## cuDNN ";
  for (std::size_t at = page.find(mark); at != std::string::npos; at = page.find(mark, at + 1))
    result.push_back(page.substr(at + mark.size(), page.find('\n', at + 1) - at - mark.size()));
  return result;
}

int print_cells(std::size_t first, std::size_t last) {
  const std::vector<Example>& examples = support::operation_examples();
  for (std::size_t i = first; i < last && i < examples.size(); ++i) {
    std::vector<std::string> cells;
    cells.reserve(support_dtypes.size());
    for (const DType dtype : support_dtypes) cells.push_back(cell_of(examples[i], dtype));
    std::printf("%s\n", joined(cells, " | ").c_str());
    report(examples[i].name(), i + 1, examples.size());
  }
  return 0;
}

int write_support_page(const std::string& path) {
  if (!why_no_plans().empty()) {
    std::fprintf(stderr, "no plans can be built: %s\n", why_no_plans().c_str());
    return 1;
  }
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  std::string page = read.str();
  if (page.empty()) {
    std::fprintf(stderr, "%s cannot be read\n", path.c_str());
    return 1;
  }
  const std::string tables =
      heading() + "\nMade on " + today() + ".\n\n" + table_of_kinds() + "\n" + table_of_operations();
  const auto [begin, end] = place(page, cudnn_text());
  const bool last = end == page.size();
  page.replace(begin, end - begin, (begin == page.size() ? "\n" : "") + tables + (last ? "" : "\n"));
  return std::ofstream(path) << page ? 0 : 1;
}

}  // namespace plans
