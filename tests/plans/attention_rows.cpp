// SPDX-License-Identifier: Apache-2.0
// Rows with attention and its gradients: dtypes, masks, lengths, bias, sink, grouped heads, orders in memory.
#include "plans/table.hpp"

namespace plans {
namespace {

using stiletto::AttentionOptions;
using stiletto::Causal;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32, i32 = DType::int32;

/// Which options a row has; arrays among them follow the operands, in this order.
struct Options {
  Causal causal = Causal::none;
  bool lengths = false, bias = false, sink = false;
  std::optional<std::int64_t> window = {};
};

AttentionOptions options_of(const Options& o, const Arrays& a, std::size_t next) {
  AttentionOptions options;
  options.causal = o.causal;
  options.window = o.window;
  if (o.lengths) options.seq_len_q = a[next], options.seq_len_kv = a[next + 1], next += 2;
  if (o.bias) options.bias = a[next++];
  if (o.sink) options.sink = a[next++];
  return options;
}

struct Sizes {
  std::int64_t seq_q = 128, seq_kv = 128, heads = 4, heads_kv = 4, head_dim = 64, width = 64, batch = 2;
};

void append_optional(std::vector<Operand>& operands, const Options& o, const Sizes& s, DType dtype) {
  if (o.lengths) operands.insert(operands.end(), {{{s.batch}, i32}, {{s.batch}, i32}});
  if (o.bias) operands.push_back({{1, s.heads, s.seq_q, s.seq_kv}, dtype});
  if (o.sink) operands.push_back({{s.heads}, f32});
}

std::vector<Operand> operands(DType dtype, const Options& o, const Sizes& s) {
  std::vector<Operand> result = {{{s.batch, s.seq_q, s.heads, s.head_dim}, dtype},
                                 {{s.batch, s.seq_kv, s.heads_kv, s.head_dim}, dtype},
                                 {{s.batch, s.seq_kv, s.heads_kv, s.width}, dtype}};
  append_optional(result, o, s, dtype);
  return result;
}

Row forward(const std::string& name, DType dtype, const Options& o, const Sizes& s = {},
            const std::string& refusal = "") {
  auto f = [o](const Arrays& a) { return stiletto::attention(a[0], a[1], a[2], options_of(o, a, 3)); };
  return {name, f, operands(dtype, o, s), refusal};
}

Row with_stats(const std::string& name, DType dtype, const Options& o, const Sizes& s = {},
               const std::string& refusal = "") {
  auto f = [o](const Arrays& a) -> Arrays {
    const auto r = stiletto::attention_with_stats(a[0], a[1], a[2], options_of(o, a, 3));
    return {r.out, r.stats};
  };
  return {name, f, operands(dtype, o, s), refusal};
}

Row backward(const std::string& name, DType dtype, const Options& o, const Sizes& s = {},
             const std::string& refusal = "") {
  auto f = [o](const Arrays& a) -> Arrays {
    const auto g = stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], options_of(o, a, 6));
    Arrays results{g.dq, g.dk, g.dv};
    if (o.bias) results.push_back(g.dbias);
    if (o.sink) results.push_back(g.dsink);
    return results;
  };
  const Operand out{{s.batch, s.seq_q, s.heads, s.width}, dtype};
  std::vector<Operand> list = operands(dtype, {}, s);
  list.insert(list.begin(), out);
  list.push_back(out);
  list.push_back({{s.batch, s.heads, s.seq_q, 1}, f32});
  append_optional(list, o, s, dtype);
  return {name, f, list, refusal};
}

using MakeRow = Row (*)(const std::string&, DType, const Options&, const Sizes&, const std::string&);

/// Every option alone and with a causal mask. `always`: the refusal of all rows, of a dtype without engines.
Group options_group(const std::string& name, MakeRow make, DType dtype, const std::string& always = "") {
  const auto row = [&](const std::string& n, DType d, const Options& o, const Sizes& s,
                       const std::string& refusal) {
    return make(n, d, o, s, refusal.empty() ? always : refusal);
  };
  const Causal top_left = Causal::top_left, bottom_right = Causal::bottom_right;
  const Sizes square{};
  Sizes longer{}, shorter{}, grouped{}, one{}, wide{}, odd{}, narrow{};
  longer.seq_q = 64;
  shorter.seq_kv = 64;
  grouped.heads_kv = 2;
  one.seq_q = 1;
  wide.width = 128, wide.head_dim = 128;
  odd.seq_q = 100, odd.seq_kv = 77;
  narrow.head_dim = 12;
  const std::string shared =
      dtype == f32 && make != backward ? "attention of float32 with 4 heads of q and 2 of k" : "";
  const std::string single = make == backward && dtype != f32 ? "gradients of a single query" : "";
  return {name,
          {row("plain", dtype, {}, square, ""),
           row("top_left", dtype, {top_left}, square, ""),
           row("bottom_right, more keys", dtype, {bottom_right}, longer, ""),
           row("bottom_right, more queries", dtype, {bottom_right}, shorter, "a bottom_right mask with 128"),
           row("bottom_right, more queries, lengths", dtype, {bottom_right, true}, shorter, ""),
           row("top_left, more queries", dtype, {top_left}, shorter, ""),
           row("lengths", dtype, {Causal::none, true}, square, ""),
           row("top_left, lengths", dtype, {top_left, true}, square, ""),
           row("bias", dtype, {Causal::none, false, true}, square, ""),
           row("top_left, bias", dtype, {top_left, false, true}, square, ""),
           row("bottom_right, bias", dtype, {bottom_right, false, true}, square,
               "a bottom_right mask and a bias"),
           row("bias, lengths", dtype, {Causal::none, true, true}, square, ""),
           row("sink", dtype, {Causal::none, false, false, true}, square, ""),
           row("top_left, sink", dtype, {top_left, false, false, true}, square, ""),
           row("top_left, sink, lengths, bias", dtype, {top_left, true, true, true}, square, ""),
           row("top_left, window", dtype, {top_left, false, false, false, 32}, square, ""),
           row("bottom_right, window", dtype, {bottom_right, false, false, false, 32}, longer, ""),
           row("top_left, window, more queries", dtype, {top_left, false, false, false, 32}, shorter,
               "a window with 128 queries and 64 keys"),
           row("top_left, window, bias", dtype, {top_left, false, true, false, 32}, square, ""),
           row("a window longer than the keys", dtype, {top_left, false, false, false, 128}, shorter, ""),
           row("top_left, window, lengths", dtype, {top_left, true, false, false, 32}, square, ""),
           row("grouped heads", dtype, {}, grouped, shared),
           row("grouped heads, bias", dtype, {Causal::none, false, true}, grouped, shared),
           row("one query", dtype, {}, one, single),
           row("one query, bottom_right", dtype, {bottom_right}, one, single),
           row("one query, lengths", dtype, {Causal::none, true}, one, single),
           row("one query, sink", dtype, {Causal::none, false, false, true}, one,
               make == backward ? single : "a sink with a single query"),
           row("width 128", dtype, {top_left}, wide, ""),
           row("odd sequences", dtype, {top_left}, odd, ""),
           row("odd sequences, bias", dtype, {Causal::none, false, true}, odd, ""),
           row("head_dim 12", dtype, {}, narrow, always.empty() ? "takes multiples of 8" : "")}};
}

Group layouts() {
  auto plain = [](const Arrays& a) { return stiletto::attention(a[0], a[1], a[2]); };
  auto packed = [](const Arrays& a) {
    const auto part = [&](std::int64_t i) {
      return stiletto::slice(a[0], {stiletto::Slice{}, stiletto::Slice{}, stiletto::Slice{4 * i, 4 * i + 4}});
    };
    return stiletto::attention(part(0), part(1), part(2));
  };
  auto same = [](const Arrays& a) { return stiletto::attention(a[0], a[0], a[0]); };
  auto computed = [](const Arrays& a) { return stiletto::attention(stiletto::relu(a[0]), a[1], a[2]); };
  auto followed = [](const Arrays& a) { return stiletto::relu(stiletto::attention(a[0], a[1], a[2])); };
  auto two = [](const Arrays& a) {
    return stiletto::attention(a[0], a[1], stiletto::attention(a[0], a[1], a[2]));
  };
  auto stats_only = [](const Arrays& a) { return stiletto::attention_with_stats(a[0], a[1], a[2]).stats; };
  auto dq_only = [](const Arrays& a) {
    return stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5]).dq;
  };
  auto reversed = [](const Arrays& a) {
    return stiletto::attention(stiletto::slice(a[0], {stiletto::Slice{}, stiletto::Slice{{}, {}, -1}}), a[1],
                               a[2]);
  };
  auto wider = [](const Arrays& a) { stiletto::attention_into(a[3], a[0], a[1], a[2]); };
  const Operand x{{2, 128, 4, 64}}, by_head{{2, 128, 4, 64}, f16, {32768, 64, 8192, 1}};
  const Operand shared{{2, 128, 4, 64}, f16, {8192, 64, 0, 1}},
      odd_rows{{2, 128, 4, 64}, f16, {33280, 260, 65, 1}};
  const Operand out32{{2, 128, 4, 64}, f32}, stats{{2, 4, 128, 1}, f32},
      strided{{2, 128, 4, 64}, f16, {65536, 512, 128, 2}};
  return {
      "attention_layouts",
      {{"heads before sequences", plain, {by_head, by_head, by_head}},
       {"packed q, k and v", packed, {{{2, 128, 12, 64}}}},
       {"one array three times", same, {x}},
       {"keys that all heads share", plain, {x, shared, shared}},
       {"rows that are no multiples of 16 bytes", plain, {odd_rows, x, x}, "aligned to 2 bytes"},
       {"gaps between elements", plain, {strided, x, x}, "has gaps between its elements along the last axis"},
       {"queries backwards", reversed, {x, x, x}, "walked backwards"},
       {"a computed query", computed, {x, x, x}, "q of attention is computed (by relu)"},
       {"relu of it", followed, {x, x, x}, "relu of what attention computes"},
       {"attention of attention", two, {x, x, x}, "attention and attention in one graph"},
       {"stats alone", stats_only, {x, x, x}, "out of attention is not used"},
       {"dq alone", dq_only, {x, x, x, x, x, stats}, "dk of attention_backward is not used"},
       {"float32 written from float16", wider, {x, x, x, out32}, "which cuDNN does not convert"},
       {"float64",
        plain,
        {{{2, 128, 4, 64}, DType::float64},
         {{2, 128, 4, 64}, DType::float64},
         {{2, 128, 4, 64}, DType::float64}},
        "is float64"}}};
}

}  // namespace

std::vector<Group> attention_groups() {
  std::vector<Group> result{layouts()};
  for (const DType dtype : {f16, bf16, f32}) {
    const std::string of = stiletto::to_string(dtype);
    result.push_back(options_group("attention_" + of, forward, dtype));
    result.push_back(options_group("attention_with_stats_" + of, with_stats, dtype));
    result.push_back(
        options_group("attention_backward_" + of, backward, dtype,
                      dtype == f32 ? "computes attention_backward of float16 and bfloat16" : ""));
  }
  return result;
}

}  // namespace plans
