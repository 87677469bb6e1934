// SPDX-License-Identifier: Apache-2.0
// docs/support.md: which device has a plan for which graph. Its tables are written from plans that are built,
// and read again by the test that they are current.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plans/table.hpp"
#include "support/operation_examples.hpp"

namespace plans {

/// Graphs of several operations.
std::vector<Row> support_kinds();

/// The columns of operations' tables.
inline constexpr std::array support_dtypes{
    DType::float64, DType::float32, DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2,
    DType::int8,    DType::uint8,   DType::int32,   DType::int64,    DType::boolean,     DType::float4_e2m1};

/// Targets as `ask` takes them: "cpu", then every GPU that is shipped.
const std::vector<std::string>& support_devices();

/// The graph of one cell, without a name.
Row row_of(const support::Example& example, DType dtype);

/// Whether the CPU has a plan; nothing where the type rules refuse the dtype, and of float4_e2m1 where its
/// operands cannot be packed two to a byte.
std::optional<bool> cpu_answer(const support::Example& example, DType dtype);

/// The devices that have a plan, as a cell says it: "all", "CPU, B200", "all but A100", "none".
std::string cell_text(const std::set<std::string>& devices);
std::set<std::string> devices_of_cell(const std::string& text);

/// The tables of operations of one version of cuDNN, read from the page: by name and dtype the devices that
/// have a plan. What is not there is refused by the type rules.
using SupportCells = std::map<std::pair<std::string, DType>, std::set<std::string>>;
SupportCells read_operations(const std::string& page, const std::string& version);
/// Versions of cuDNN that the page has tables of.
std::vector<std::string> versions_of(const std::string& page);

/// The cells of some of the examples, to the standard output: a line each.
int print_cells(std::size_t first, std::size_t last);

/// Makes the tables of the cuDNN that is found, which takes some 20 minutes, and puts them into the page.
/// Progress goes to the standard error. The program's status.
int write_support_page(const std::string& path);

}  // namespace plans
