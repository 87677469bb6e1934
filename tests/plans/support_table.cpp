// SPDX-License-Identifier: Apache-2.0
#include "plans/table.hpp"
namespace plans {
std::string support_table() { return ""; }
}  // namespace plans
