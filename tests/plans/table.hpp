// SPDX-License-Identifier: Apache-2.0
// Functions over arrays, and whether cuDNN has a plan for each. Without a GPU the plans are built for an
// absent H200; on an H200 the same rows are built, and launched, for that GPU, and the answers have to agree.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace plans {

using stiletto::Array;
using stiletto::CompileOptions;
using stiletto::DType;
using stiletto::Shape;
using Arrays = std::vector<Array>;

/// An argument of a row: a spec without its device. Without strides it is row-major.
struct Operand {
  Shape shape;
  DType dtype = DType::float16;
  stiletto::Strides strides = {};
};

/// Part of what cuDNN's engines say when none takes a graph.
inline constexpr const char* no_engine = "NOT_SUPPORTED";

/// What is traced: takes the arguments, returns nothing, an Array or several.
class Function {
 public:
  template <class F>
    requires std::is_invocable_v<const F&, const Arrays&>
  Function(const F& f)  // a lambda in a table
      : call_([f](const Arrays& a) -> Arrays {
          using Result = std::invoke_result_t<const F&, const Arrays&>;
          if constexpr (std::is_void_v<Result>) {
            f(a);
            return {};
          } else if constexpr (std::is_same_v<Result, Array>) {
            return {f(a)};
          } else {
            return f(a);
          }
        }) {}
  Arrays operator()(const Arrays& a) const { return call_(a); }

 private:
  std::function<Arrays(const Arrays&)> call_;
};

/// Compared with what the GPU itself answers, a plan for an absent one may differ where this says so.
enum class Elsewhere { agrees, differs };

struct Row {
  std::string name;
  Function function;
  std::vector<Operand> operands;
  std::string refusal = {};  // part of the reason; empty: there is a plan
  CompileOptions options = {};
  Elsewhere elsewhere = Elsewhere::agrees;
  std::size_t plan_since = 0;  // cuDNN's version from which on there is a plan; below it, the refusal

  bool has_plan(std::size_t cudnn_version) const {
    return refusal.empty() || (plan_since != 0 && cudnn_version >= plan_since);
  }
};

struct Group {
  std::string name;
  std::vector<Row> rows;
  std::string target = "h200";
};

/// The whole table; `rows_of` adds the groups of one file.
const std::vector<Group>& groups();
std::vector<Group> pointwise_groups();
std::vector<Group> product_groups();
std::vector<Group> reduction_groups();
std::vector<Group> dtype_groups();
std::vector<Group> coverage_groups();
std::vector<Group> attention_groups();
std::vector<Group> attention_option_groups();
std::vector<Group> norm_groups();
std::vector<Group> convolution_groups();
std::vector<Group> blockscaled_groups();

/// What this machine says to a row.
struct Answer {
  bool plan = false;
  std::size_t workspace = 0;
  std::string text;  // of the refusal; with a plan, of the graph
};

/// The GPU that is there, when it is the target itself.
bool is_here(const std::string& target);
/// Builds the row for `target`, absent or present; for the CPU where that is "cpu". What is neither a plan
/// nor an UnsupportedGraphError is thrown on.
Answer ask(const Row& row, const std::string& target);

/// Empty when plans can be built on this machine, else why not.
const std::string& why_no_plans();

std::size_t cudnn_version();

/// Counts of everything asked, printed at the end of the program.
struct Tally {
  int rows = 0, plans = 0, refusals = 0;
  std::vector<std::string> differ;
};
Tally& tally();

}  // namespace plans
