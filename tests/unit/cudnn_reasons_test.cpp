// SPDX-License-Identifier: Apache-2.0
// cuDNN's own words about a refusal, taken apart. The message is what 9.19 said of a softmax for an H200,
// cut.
#ifdef STILETTO_HAS_CUDNN
#include "backends/cudnn/reasons.hpp"

#include <gtest/gtest.h>

namespace {

using stiletto::detail::cudnn::engine_reasons;

TEST(EngineReasons, one_for_each_engine) {
  const auto reasons = engine_reasons(
      "heuristics",
      "No valid engine configs for _____\n{\"engineId\":1,\"smVersion\":900,\"knobChoices\":{\"A\":-1}}\n"
      "Warning: CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN; Reason: node->getConsumerNodes().size() != 0\n"
      "Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: ptr->isSupported()\n\n"
      "{\"engineId\":12,\"smVersion\":900,\"knobChoices\":{}}\nWarning: "
      "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH; "
      "Reason: deviceVer > 800\n");
  ASSERT_EQ(reasons.size(), 2U);
  EXPECT_EQ(reasons[0].engine, "eng1");
  EXPECT_EQ(reasons[0].reason, "NOT_SUPPORTED_GRAPH_PATTERN: node->getConsumerNodes().size() != 0");
  EXPECT_EQ(reasons[1].engine, "eng12");
  EXPECT_EQ(reasons[1].reason, "NOT_SUPPORTED_ARCH_MISMATCH: deviceVer > 800");
}

TEST(EngineReasons, a_message_of_no_engine_stays) {
  const auto reasons = engine_reasons("validation", "dims do\n not  match\n");
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_EQ(reasons[0].engine, "validation");
  EXPECT_EQ(reasons[0].reason, "dims do not match");
}

TEST(EngineReasons, an_engine_without_a_reason_keeps_its_text) {
  const auto reasons = engine_reasons("heuristics", "x {\"engineId\":3}");
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_EQ(reasons[0].engine, "eng3");
  EXPECT_EQ(reasons[0].reason, "{\"engineId\":3}");
}

}  // namespace
#endif
