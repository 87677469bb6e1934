// SPDX-License-Identifier: Apache-2.0
// docs/support.md is current: the CPU's cells are all asked anew, which takes seconds, and of an H200's those
// that say no, and some of those that say yes.
#include "plans/support_page.hpp"

#include <fstream>
#include <sstream>

#include "backends/cudnn/libraries.hpp"
#include "graph/op_table.hpp"
#include "plans/fixture.hpp"

namespace {

using plans::DType;
using plans::SupportCells;
using support::Example;
using Set = std::set<std::string>;
namespace detail = stiletto::detail;

constexpr const char* way_out = "; make the page anew: stiletto_plans_tests --table docs/support.md";

std::string page() {
  std::stringstream text;
  text << std::ifstream(STILETTO_SOURCE_DIR "/docs/support.md").rdbuf();
  return text.str();
}

class SupportPage : public plans::PlanTest {};

TEST(SupportPageText, cells_are_read_as_they_are_written) {
  const std::vector<std::string>& devices = plans::support_devices();
  ASSERT_GE(devices.size(), 4U);
  for (std::size_t taken = 0; taken < std::size_t{1} << devices.size(); ++taken) {
    Set set;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if ((taken >> i & 1U) != 0) set.insert(devices[i]);
    EXPECT_EQ(plans::devices_of_cell(plans::cell_text(set)), set) << plans::cell_text(set);
  }
  EXPECT_EQ(plans::cell_text({}), "none");
  EXPECT_EQ(plans::cell_text({"cpu", "b200"}), "CPU, B200");
  EXPECT_EQ(plans::cell_text({devices.begin(), devices.end()}), "all");
}

/// Each row but those of captured memory, with the answers of the CPU, in the tables of every version.
TEST(SupportPageText, has_every_operation_with_what_the_cpu_answers) {
  const std::string text = page();
  const std::vector<std::string> versions = plans::versions_of(text);
  ASSERT_FALSE(versions.empty());
  std::map<std::string, SupportCells> cells;
  for (const std::string& version : versions) cells[version] = plans::read_operations(text, version);
  Set operations;
  for (const Example& example : support::operation_examples()) {
    operations.insert(detail::name_of(example.op));
    for (const DType dtype : plans::support_dtypes) {
      const std::optional<bool> cpu = plans::cpu_answer(example, dtype);
      for (const std::string& version : versions) {
        const auto cell = cells[version].find({example.name(), dtype});
        const bool listed = cell != cells[version].end();
        EXPECT_EQ(listed, cpu.has_value())
            << example.name() << " of " << dtype << " in " << version << way_out;
        if (!listed || !cpu) continue;
        EXPECT_EQ(cell->second.contains("cpu"), *cpu) << example.name() << " of " << dtype << way_out;
      }
    }
  }
  EXPECT_EQ(operations.size(), detail::op_count - 1);
}

TEST_F(SupportPage, agrees_with_plans_for_an_h200) {
  if (plans::is_here("h200")) GTEST_SKIP() << "the page is about GPUs that are not there";
  const std::string version = detail::cudnn::libraries_for_planning().cudnn.version;
  const SupportCells cells = plans::read_operations(page(), version);
  if (cells.empty()) GTEST_SKIP() << "docs/support.md has no tables of cuDNN " << version;
  int refused = 0, planned = 0, asked = 0;
  for (const Example& example : support::operation_examples()) {
    for (const DType dtype : plans::support_dtypes) {
      const auto cell = cells.find({example.name(), dtype});
      if (cell == cells.end()) continue;
      const bool plan = cell->second.contains("h200");
      if (plan && planned++ % 16 != 0) continue;
      refused += plan ? 0 : 1;
      ++asked;
      const plans::Answer answer = plans::ask(plans::row_of(example, dtype), "h200");
      EXPECT_EQ(answer.plan, plan) << example.name() << " of " << dtype << way_out << "\n" << answer.text;
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(asked - refused, 20);
}

}  // namespace
