// SPDX-License-Identifier: Apache-2.0
// The reader of device properties: what it keeps, and where it says a fault is.
#ifdef STILETTO_HAS_CUDNN
#include "backends/cudnn/target_json.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace {

using stiletto::detail::cudnn::JsonMember;
using stiletto::detail::cudnn::parse_json_object;
using stiletto::detail::cudnn::to_json;

std::string fault(const std::string& text) {
  try {
    parse_json_object(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TargetJson, members_keep_order_and_spelling) {
  const auto members = parse_json_object(
      " {\"a\" : [1 , 2,\n3], \"b\":-1.50e+3, \"c\": \"x \\\" y\", \"d\": {\"e\": [ ], \"f\": null}}\n");
  const std::vector<JsonMember> wanted = {
      {"a", "[1,2,3]"}, {"b", "-1.50e+3"}, {"c", "\"x \\\" y\""}, {"d", "{\"e\":[],\"f\":null}"}};
  EXPECT_EQ(members, wanted);
  EXPECT_EQ(to_json(members),
            "{\"a\":[1,2,3],\"b\":-1.50e+3,\"c\":\"x \\\" y\",\"d\":{\"e\":[],\"f\":null}}");
  EXPECT_EQ(parse_json_object(to_json(members)), wanted);
  EXPECT_TRUE(parse_json_object("{}").empty());
}

TEST(TargetJson, faults_have_a_place) {
  EXPECT_EQ(fault(""), "line 1, column 1: the file has to be one JSON object");
  EXPECT_EQ(fault("[1]"), "line 1, column 1: the file has to be one JSON object");
  EXPECT_EQ(fault("{\"a\" 1}"), "line 1, column 6: a key needs a colon behind it");
  EXPECT_EQ(fault("{\"a\": 1,\n 2}"), "line 2, column 2: a key or value in double quotes is expected");
  EXPECT_EQ(fault("{\"a\": 1"), "line 1, column 8: a comma or the closing brace is missing");
  EXPECT_EQ(fault("{\"a\": [1, 2}"), "line 1, column 12: a comma or the closing bracket is missing");
  EXPECT_EQ(fault("{\"a\": }"), "line 1, column 7: a value is expected");
  EXPECT_EQ(fault("{\"a\": 1.}"), "line 1, column 9: a value is expected");
  EXPECT_EQ(fault("{\"a\": \"x"), "line 1, column 9: the string is not closed");
  EXPECT_EQ(fault("{\"a\": \"x\\"), "line 1, column 10: the string is not closed");
  EXPECT_EQ(fault("{\"a\": 1} x"), "line 1, column 10: there is more behind the closing brace");
  EXPECT_EQ(fault("{\"a\": 1, \"a\": 2}"), "line 1, column 16: the key \"a\" stands twice");
  EXPECT_TRUE(fault("{\"a\": " + std::string(100000, '[')).ends_with("values are nested too deeply"));
}

}  // namespace
#endif
