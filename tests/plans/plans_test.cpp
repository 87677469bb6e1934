// SPDX-License-Identifier: Apache-2.0
// Every row of the table is asked for, and gets its plan or its refusal.
#include "plans/fixture.hpp"

namespace {

using plans::Answer;
using plans::Group;
using plans::Row;

class Plans : public plans::PlanTest, public testing::WithParamInterface<std::size_t> {};

/// Empty when the answer is the expected one.
std::string mistake(const Row& row, const Answer& answer) {
  if (row.has_plan(plans::cudnn_version())) return answer.plan ? "" : "has no plan: " + answer.text;
  if (answer.plan) return "has a plan, and should be refused for: " + row.refusal + "\n" + answer.text;
  if (answer.text.find(row.refusal) == std::string::npos)
    return "is refused for another reason than: " + row.refusal + "\n" + answer.text;
  return "";
}

TEST_P(Plans, are_built_or_refused) {
  const Group& group = plans::groups()[GetParam()];
  for (const Row& row : group.rows) {
    const Answer answer = plans::ask(row, group.target);
    const std::string name = group.name + ": " + row.name;
    ++plans::tally().rows;
    ++(answer.plan ? plans::tally().plans : plans::tally().refusals);
    const std::string wrong = mistake(row, answer);
    if (wrong.empty()) continue;
    plans::tally().differ.push_back(name);
    const bool known = row.elsewhere == plans::Elsewhere::differs && plans::is_here(group.target);
    if (!known) ADD_FAILURE() << name << " " << wrong;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Plans, testing::Range<std::size_t>(0, plans::groups().size()),
                         [](const auto& info) { return plans::groups()[info.param].name; });

TEST(PlanTable, names_are_unique_and_rows_many) {
  std::vector<std::string> names;
  for (const Group& group : plans::groups())
    for (const Row& row : group.rows) names.push_back(group.name + ": " + row.name);
  EXPECT_GE(names.size(), 120U);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  EXPECT_EQ(twice, names.end()) << *twice;
}

}  // namespace
