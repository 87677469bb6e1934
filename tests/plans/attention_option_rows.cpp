// SPDX-License-Identifier: Apache-2.0
// Rows with attention's options about where things lie and what is drawn: packed sequences, pages, dropout,
// and attention in float8.
#include "plans/table.hpp"

namespace plans {
namespace {

using stiletto::AttentionOptions;
using stiletto::Causal;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32, i32 = DType::int32,
                i64 = DType::int64, e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;

struct Setting {
  DType dtype = f16;
  bool packed = false, paged = false, dropout = false;
  Causal causal = Causal::none;
  bool lengths = false, bias = false, sink = false;
  std::int64_t window = 0;
  std::int64_t heads = 4, heads_kv = 4, head_dim = 64, width = 64, seq_q = 128, seq_kv = 128, batch = 2;
  std::int64_t page_size = 32, rows_q = 200, rows_kv = 200;
  double rate = 0.1;
  DType offsets = i32;

  std::int64_t pages() const { return seq_kv / page_size; }
  Shape q() const { return packed ? Shape{rows_q, heads, head_dim} : Shape{batch, seq_q, heads, head_dim}; }
  Shape keys(std::int64_t of) const {
    if (packed) return {rows_kv, heads_kv, of};
    if (paged) return {batch * pages() + 3, page_size, heads_kv, of};
    return {batch, seq_kv, heads_kv, of};
  }
  Shape out() const { return packed ? Shape{rows_q, heads, width} : Shape{batch, seq_q, heads, width}; }
};

using Change = void (*)(Setting&);

void append_optional(std::vector<Operand>& list, const Setting& s) {
  const Operand length{{s.batch}, i32}, offsets{{s.batch + 1}, s.offsets}, draw{{1}, i64};
  if (s.lengths) list.insert(list.end(), {length, length});
  if (s.bias) list.push_back({{1, s.heads, s.seq_q, s.seq_kv}, s.dtype});
  if (s.sink) list.push_back({{s.heads}, f32});
  if (s.dropout) list.insert(list.end(), {draw, draw});
  if (s.packed) list.insert(list.end(), {offsets, offsets, offsets, offsets});
  if (s.paged) list.insert(list.end(), {{{s.batch, s.pages()}, i32}, {{s.batch, s.pages()}, i32}});
}

AttentionOptions options_of(const Setting& s, const Arrays& a, std::size_t next) {
  AttentionOptions options{.causal = s.causal};
  if (s.window > 0) options.window = s.window;
  if (s.lengths) options.seq_len_q = a[next], options.seq_len_kv = a[next + 1], next += 2;
  if (s.bias) options.bias = a[next++];
  if (s.sink) options.sink = a[next++];
  if (s.dropout) options.dropout = stiletto::AttentionDropout{s.rate, a[next], a[next + 1]}, next += 2;
  if (s.packed) {
    options.packed =
        stiletto::PackedSequences{a[next], a[next + 1], a[next + 2], a[next + 3], s.seq_q, s.seq_kv};
    next += 4;
  }
  if (s.paged) options.paged = stiletto::PagedKeys{a[next], a[next + 1]};
  return options;
}

std::vector<Operand> operands(const Setting& s) {
  return {{s.q(), s.dtype}, {s.keys(s.head_dim), s.dtype}, {s.keys(s.width), s.dtype}};
}

/// With stats, as a forward step of training has them.
Row forward(const std::string& name, const Setting& s, const std::string& refusal) {
  auto f = [s](const Arrays& a) -> Arrays {
    const auto r = stiletto::attention_with_stats(a[0], a[1], a[2], options_of(s, a, 3));
    return {r.out, r.stats};
  };
  std::vector<Operand> list = operands(s);
  append_optional(list, s);
  return {name, f, list, refusal};
}

Row inference(const std::string& name, const Setting& s, const std::string& refusal) {
  auto f = [s](const Arrays& a) { return stiletto::attention(a[0], a[1], a[2], options_of(s, a, 3)); };
  std::vector<Operand> list = operands(s);
  append_optional(list, s);
  return {name, f, list, refusal};
}

Row backward(const std::string& name, const Setting& s, const std::string& refusal) {
  auto f = [s](const Arrays& a) -> Arrays {
    const auto g = stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], options_of(s, a, 6));
    Arrays results{g.dq, g.dk, g.dv};
    if (s.bias) results.push_back(g.dbias);
    if (s.sink) results.push_back(g.dsink);
    return results;
  };
  std::vector<Operand> list = operands(s);
  list.insert(list.begin(), {s.out(), s.dtype});
  list.insert(list.end(), {{s.out(), s.dtype}, {{s.batch, s.heads, s.seq_q, 1}, f32}});
  append_optional(list, s);
  return {name, f, list, refusal};
}

using MakeRow = Row (*)(const std::string&, const Setting&, const std::string&);

struct Case {
  const char* name;
  Change change;
};

/// What the options of a setting are refused for together; empty: there is a plan.
std::string refusal_of(const Setting& s, bool gradients) {
  const bool bottom_right = s.causal == Causal::bottom_right, drops = s.dropout && s.rate > 0;
  if (bottom_right && !s.lengths && s.seq_q > s.seq_kv) return "a bottom_right mask with 128 queries";
  if (bottom_right && s.bias) return "a bottom_right mask and a bias";
  if (bottom_right && drops) return "a bottom_right mask and dropout, which cuDNN does not take together";
  if (drops && s.dtype == f32) return "dropout of float32, whose kernels cuDNN fails to compile";
  if (s.paged && s.page_size == 12) return "pages of 12 rows, and cuDNN takes powers of 2";
  if (gradients && s.dtype == f32) return "computes attention_backward of float16 and bfloat16";
  if (gradients && s.seq_q == 1) return "gradients of a single query";
  return "";
}

const std::vector<Case>& cases() {
  static const auto& all = *new std::vector<Case>{
      {"plain", [](Setting&) {}},
      {"bfloat16", [](Setting& s) { s.dtype = bf16; }},
      {"float32", [](Setting& s) { s.dtype = f32; }},
      {"top_left", [](Setting& s) { s.causal = Causal::top_left; }},
      {"bottom_right", [](Setting& s) { s.causal = Causal::bottom_right; }},
      {"bottom_right, more queries", [](Setting& s) { s.causal = Causal::bottom_right, s.seq_kv = 64; }},
      {"top_left, window", [](Setting& s) { s.causal = Causal::top_left, s.window = 32; }},
      {"bottom_right, window", [](Setting& s) { s.causal = Causal::bottom_right, s.window = 32; }},
      {"bias", [](Setting& s) { s.bias = true; }},
      {"top_left, bias", [](Setting& s) { s.causal = Causal::top_left, s.bias = true; }},
      {"bottom_right, bias", [](Setting& s) { s.causal = Causal::bottom_right, s.bias = true; }},
      {"sink", [](Setting& s) { s.sink = true; }},
      {"sink, bias, top_left", [](Setting& s) { s.causal = Causal::top_left, s.sink = s.bias = true; }},
      {"lengths", [](Setting& s) { s.lengths = true; }},
      {"top_left, lengths", [](Setting& s) { s.causal = Causal::top_left, s.lengths = true; }},
      {"grouped heads", [](Setting& s) { s.heads_kv = 2; }},
      {"one head of keys", [](Setting& s) { s.heads_kv = 1; }},
      {"one query", [](Setting& s) { s.seq_q = 1; }},
      {"one query, grouped heads", [](Setting& s) { s.seq_q = 1, s.heads_kv = 1; }},
      {"odd sequences", [](Setting& s) { s.seq_q = 100, s.seq_kv = 96; }},
      {"head_dim 128", [](Setting& s) { s.head_dim = s.width = 128; }},
      {"head_dim 256", [](Setting& s) { s.head_dim = s.width = 256; }},
      {"head_dim 40", [](Setting& s) { s.head_dim = s.width = 40; }},
      {"another width", [](Setting& s) { s.width = 128; }},
      {"one sequence", [](Setting& s) { s.batch = 1; }},
      {"packed", [](Setting& s) { s.packed = s.lengths = true; }},
      {"packed, bottom_right",
       [](Setting& s) { s.packed = s.lengths = true, s.causal = Causal::bottom_right; }},
      {"packed, int64", [](Setting& s) { s.packed = s.lengths = true, s.offsets = i64; }},
      {"pages", [](Setting& s) { s.paged = s.lengths = true; }},
      {"pages of 1", [](Setting& s) { s.paged = s.lengths = true, s.page_size = 1; }},
      {"pages of 16", [](Setting& s) { s.paged = s.lengths = true, s.page_size = 16; }},
      {"pages of 64", [](Setting& s) { s.paged = s.lengths = true, s.page_size = 64; }},
      {"pages of 128", [](Setting& s) { s.paged = s.lengths = true, s.page_size = 128; }},
      {"pages of 12", [](Setting& s) { s.paged = s.lengths = true, s.page_size = 12, s.seq_kv = 60; }},
      {"dropout", [](Setting& s) { s.dropout = true; }},
      {"dropout of nothing", [](Setting& s) { s.dropout = true, s.rate = 0; }},
  };
  return all;
}

/// q, k, v, the six factors, lengths.
Row in_float8(const std::string& name, const Setting& s, const std::string& refusal,
              std::size_t results = 4) {
  auto f = [s, results](const Arrays& a) -> Arrays {
    AttentionOptions options{.causal = s.causal};
    if (s.window > 0) options.window = s.window;
    if (s.lengths) options.seq_len_q = a[9], options.seq_len_kv = a[10];
    const auto r =
        stiletto::attention_float8(a[0], a[1], a[2], {a[3], a[4], a[5], a[6], a[7], a[8]}, options);
    const Arrays all{r.out, r.amax_s, r.amax_out, r.stats};
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(results)};
  };
  std::vector<Operand> list = operands(s);
  list.insert(list.end(), 6, {{1}, f32});
  if (s.lengths) list.insert(list.end(), {{{s.batch}, i32}, {{s.batch}, i32}});
  return {name, f, list, refusal};
}

Group float8_group(DType dtype) {
  Group result{std::string("attention_") + stiletto::to_string(dtype), {}};
  const auto add = [&](const char* name, Change change, const std::string& refusal = "",
                       std::size_t results = 4) {
    Setting s;
    s.dtype = dtype;
    change(s);
    result.rows.push_back(in_float8(name, s, refusal, results));
  };
  add("plain", [](Setting&) {});
  add("without stats", [](Setting&) {}, "", 3);
  add("without amax_out", [](Setting&) {}, "amax_out of attention_float8 is not used", 2);
  add("out alone", [](Setting&) {}, "amax_s of attention_float8 is not used", 1);
  add("top_left", [](Setting& s) { s.causal = Causal::top_left; });
  add("top_left, without stats", [](Setting& s) { s.causal = Causal::top_left; }, "", 3);
  add("top_left, window", [](Setting& s) { s.causal = Causal::top_left, s.window = 32; });
  add("bottom_right", [](Setting& s) { s.causal = Causal::bottom_right; }, "only supported on Blackwell");
  add("lengths", [](Setting& s) { s.lengths = true; });
  add("top_left, lengths", [](Setting& s) { s.causal = Causal::top_left, s.lengths = true; });
  add("grouped heads", [](Setting& s) { s.heads_kv = 2; });
  add("one query", [](Setting& s) { s.seq_q = 1; }, "attention_float8 with a single query");
  add("odd sequences", [](Setting& s) { s.seq_q = 100, s.seq_kv = 77; });
  add("more queries", [](Setting& s) { s.seq_kv = 64; });
  add("head_dim 128", [](Setting& s) { s.head_dim = s.width = 128; });
  add("head_dim 256", [](Setting& s) { s.head_dim = s.width = 256; });
  add("head_dim 48", [](Setting& s) { s.head_dim = s.width = 48; });
  add(
      "head_dim 24", [](Setting& s) { s.head_dim = s.width = 24; },
      "has head_dim 24, and cuDNN takes multiples of 16");
  add("another width", [](Setting& s) { s.width = 128; });
  return result;
}

Group group(const std::string& name, MakeRow make, Change base) {
  Group result{name, {}};
  for (const Case& c : cases()) {
    Setting s;
    base(s);
    c.change(s);
    if (s.packed && s.paged) continue;
    if (s.paged && make == backward) continue;
    Row row = make(c.name, s, refusal_of(s, make == backward));
    if (make == backward && s.packed && s.sink) {
      row.refusal = "requires cuDNN 9.26.0 or newer";
      row.plan_since = 92600;
    }
    result.rows.push_back(std::move(row));
  }
  return result;
}

Group layouts() {
  auto packed = [](const Array& q, const Array& k, const Array& v, const Arrays& a) {
    return stiletto::attention(q, k, v,
                               {.seq_len_q = a[1],
                                .seq_len_kv = a[1],
                                .packed = stiletto::PackedSequences{a[2], a[2], a[2], a[2], 128, 128}});
  };
  auto one = [packed](const Arrays& a) { return packed(a[0], a[0], a[0], a); };
  auto projection = [packed](const Arrays& a) {
    const auto part = [&](std::int64_t i) {
      return stiletto::slice(a[0], {stiletto::Slice{}, stiletto::Slice{4 * i, 4 * i + 4}});
    };
    return packed(part(0), part(1), part(2), a);
  };
  auto into = [](const Arrays& a) {
    stiletto::attention_into(a[3], a[0], a[0], a[0],
                             {.seq_len_q = a[1],
                              .seq_len_kv = a[1],
                              .packed = stiletto::PackedSequences{a[2], a[2], a[2], a[2], 128, 128}});
  };
  const Operand x{{256, 4, 64}}, lengths{{2}, i32}, offsets{{3}, i32};
  return {"attention_option_layouts",
          {{"one packed array three times", one, {x, lengths, offsets}},
           {"packed parts of a projection",
            projection,
            {{{256, 12, 64}}, lengths, offsets},
            "q has gaps between its rows, over which the offsets of packed sequences do not count"},
           {"packed heads before rows",
            one,
            {{{256, 4, 64}, f16, {64, 16384, 1}}, lengths, offsets},
            "q has gaps between its rows"},
           {"packed rows with gaps in the result",
            into,
            {x, lengths, offsets, {{256, 4, 64}, f16, {512, 64, 1}}},
            "has gaps between its rows"},
           {"no packed sequences", one, {x, {{0}, i32}, {{1}, i32}}}}};
}

}  // namespace

std::vector<Group> attention_option_groups() {
  const Change packed = [](Setting& s) { s.packed = s.lengths = true; };
  const Change paged = [](Setting& s) { s.paged = s.lengths = true; };
  const Change dropout = [](Setting& s) { s.dropout = true; };
  return {group("attention_packed", forward, packed),
          group("attention_packed_inference", inference, packed),
          group("attention_packed_backward", backward, packed),
          group("attention_paged", forward, paged),
          group("attention_paged_inference", inference, paged),
          group("attention_dropout", forward, dropout),
          group("attention_dropout_inference", inference, dropout),
          group("attention_dropout_backward", backward, dropout),
          float8_group(e4m3),
          float8_group(e5m2),
          layouts()};
}

}  // namespace plans
