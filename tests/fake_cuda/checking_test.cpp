// SPDX-License-Identifier: Apache-2.0
// The checking mode: which values of attention's operands it refuses, in which words, and that it looks at
// the operands it means to.
#include "backends/cudnn/checking.hpp"

#include "backends/cudnn/geometry.hpp"
#include "backends/cudnn/lower.hpp"
#include "support/float8_attention.hpp"
#include "support/packed_trial.hpp"
#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using namespace support;
using stiletto::Causal;
using stiletto::Device;
namespace cudnn = stiletto::detail::cudnn;

const Device gpu = Device::cuda(0);
constexpr DType f16 = DType::float16, f32 = DType::float32;

/// What a call of f with these arguments checks before it runs; results are not read.
template <class F>
void check(const F& f, const Arrays& arguments) {
  unit::Recording recording;
  Arrays traced;
  for (const Array& a : arguments)
    traced.push_back(recording.like(unit::on_cpu(a.shape(), a.dtype(), a.strides())));
  for (const Array& result : f(traced)) recording.trace.add_result(result);
  recording.trace.end();
  const auto lowered = stiletto::detail::canonicalize(recording.trace, {});
  std::string refusal;
  const auto ways = cudnn::geometries(lowered.graph, refusal);
  const cudnn::EngineGraph graph = cudnn::lower(lowered.graph, ways.at(0));
  std::vector<void*> pointers;
  using Role = cudnn::EngineTensor::Role;
  for (const cudnn::EngineTensor& t : graph.tensors) {
    if (t.role == Role::intermediate) continue;
    void* pointer = nullptr;
    if (t.role == Role::input) {  // its name is that of the argument: "arg3"
      const std::string& name = lowered.graph.tensors[t.source].name;
      pointer = arguments.at(std::stoul(name.substr(3))).raw_data();
    }
    pointers.push_back(pointer);
  }
  cudnn::check_values(graph, pointers, 0);
}

template <class T>
Array on_gpu(const std::vector<T>& values, const stiletto::Shape& shape) {
  return stiletto::from_data<T>(values, shape, gpu);
}
Array lengths(const std::vector<int>& values) {
  return on_gpu(values, {static_cast<std::int64_t>(values.size())});
}

// ---- sequences with padding ----

Arrays dense(const Arrays& a) {
  return {stiletto::attention(a[0], a[1], a[2], {.seq_len_q = a[3], .seq_len_kv = a[4]})};
}
Arrays gradients(const Arrays& a) {
  const auto g = stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5],
                                              {.seq_len_q = a[6], .seq_len_kv = a[7]});
  return {g.dq, g.dk, g.dv};
}

TEST(Checking, lengths_of_padded_sequences) {
  const Array q = stiletto::ones({2, 4, 2, 8}, f16, gpu), k = stiletto::ones({2, 6, 2, 8}, f16, gpu);
  const Array stats = stiletto::zeros({2, 2, 4, 1}, f32, gpu);
  const auto expect = [&](const std::vector<int>& len_q, const std::vector<int>& len_kv,
                          const std::string& wanted) {
    const auto with = [&](const std::string& name) {
      return wanted.starts_with("nothing") ? wanted : "ArgumentError: " + name + ": " + wanted;
    };
    unit::expect_text([&] { check(dense, {q, k, k, lengths(len_q), lengths(len_kv)}); }, with("attention"));
    unit::expect_text([&] { check(gradients, {q, q, k, k, q, stats, lengths(len_q), lengths(len_kv)}); },
                      with("attention_backward"));
  };
  expect({4, 0}, {6, 1}, "nothing was thrown");
  expect({4, 0}, {6, 0},
         "seq_len_kv is 0 for batch entry 1, which cuDNN makes NaN; leave the entry out, or give it a key");
  expect({4, 5}, {6, 1}, "seq_len_q is 5 for batch entry 1, which has 4 rows; give it 0 to 4");
  expect({4, 4}, {7, 1}, "seq_len_kv is 7 for batch entry 0, which has 6 rows; give it 0 to 6");
  expect({4, 4}, {-1, 1}, "seq_len_kv is -1 for batch entry 0, which has 6 rows; give it 0 to 6");
}

TEST(Checking, infinity_and_nan_past_a_length) {
  for (const DType dtype : {f16, DType::bfloat16, f32})
    for (const std::size_t operand : {0U, 1U, 2U})
      for (const Real value : {infinity, -infinity, not_a_number}) {
        const auto with = [&](std::int64_t row) {
          Arrays a;
          for (const std::size_t i : {0U, 1U, 2U}) {
            Tensor x = tabulate(dtype, {2, 6, 2, 8}, [](const Extents&) { return Real{1}; });
            if (i == operand) element(x, {1, row, 1, 7}) = value;
            a.push_back(to_array(x, gpu));
          }
          a.insert(a.end(), {lengths({6, 4}), lengths({6, 4})});
          return unit::error_of([&] { check(dense, a); });
        };
        EXPECT_EQ(with(3), "nothing was thrown");
        EXPECT_EQ(with(4), std::string("ArgumentError: attention: ") + "qkv"[operand] +
                               " has infinity or NaN at row 4 of batch entry 1, past its length 4, and cuDNN "
                               "lets it into the result; fill the padding with zeros");
      }
}

// ---- packed sequences ----

Arrays packed(const Arrays& a) {
  AttentionOptions options{.seq_len_q = a[3], .seq_len_kv = a[4]};
  options.packed = stiletto::PackedSequences{a[5], a[6], a[7], a[8], 4, 6};
  return {stiletto::attention(a[0], a[1], a[2], options)};
}

TEST(Checking, places_of_packed_sequences) {
  const Array nan = stiletto::full({10, 2, 8}, std::nan(""), f16, gpu);  // what is between is not looked at
  const auto text = [&](const std::vector<int>& len_q, const std::vector<int>& len_kv, int changed,
                        std::int64_t place) {
    Arrays a{nan, nan, nan, lengths(len_q), lengths(len_kv)};
    for (int i = 0; i < 4; ++i) {
      std::vector<std::int64_t> places{64, 0, 160};
      if (i == changed) places[1] = place;
      a.push_back(on_gpu(places, {3}));
    }
    return unit::error_of([&] { check(packed, a); });
  };
  const std::string ok = "nothing was thrown", start = "ArgumentError: attention: ";
  EXPECT_EQ(text({4, 4}, {6, 5}, 0, 96), ok);  // up to the last row
  EXPECT_EQ(text({4, 0}, {6, 0}, 0, 1 << 30), ok);
  EXPECT_EQ(text({4, 1}, {6, 0}, 0, 0),
            start +
                "seq_len_kv is 0 for sequence 1, whose queries cuDNN gives no result; leave it out, or give "
                "it a key");
  EXPECT_EQ(text({5, 1}, {6, 1}, 0, 0),
            start + "seq_len_q is 5 for batch entry 0, which has 4 rows; give it 0 to 4");
  EXPECT_EQ(text({4, 1}, {6, 7}, 0, 0),
            start + "seq_len_kv is 7 for batch entry 1, which has 6 rows; give it 0 to 6");
  const char* const names[] = {"offsets_q", "offsets_k", "offsets_v", "offsets_out"};
  for (int i = 0; i < 4; ++i) {
    const std::string rows = i == 1 || i == 2 ? " of 5" : " of 4";
    const std::int64_t past = i == 1 || i == 2 ? 81 : 97;
    for (const std::int64_t place : {past, std::int64_t{-1}, std::int64_t{1} << 62}) {
      std::string wanted = start;
      wanted.append(names[i]).append(" lets sequence 1").append(rows);
      wanted.append(" rows of 16 elements begin at element ").append(std::to_string(place));
      wanted += " of 160, and cuDNN reads and writes past the end; give it a place inside";
      EXPECT_EQ(text({4, 4}, {6, 5}, i, place), wanted);
    }
  }
}

TEST(Checking, places_may_be_int32_and_gradients_have_them_too) {
  const Array rows = stiletto::ones({10, 2, 8}, f16, gpu), stats = stiletto::zeros({1, 2, 4, 1}, f32, gpu);
  const auto text = [&](int place_q, int place_v) {
    const auto f = [](const Arrays& a) -> Arrays {
      AttentionOptions options{.seq_len_q = a[6], .seq_len_kv = a[6]};
      options.packed = stiletto::PackedSequences{a[7], a[8], a[9], a[8], 4, 6};
      const auto g = stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], options);
      return {g.dq, g.dk, g.dv};
    };
    const auto at = [](int place) { return on_gpu<int>({place, 160}, {2}); };
    return unit::error_of([&] {
      check(f, {rows, rows, rows, rows, rows, stats, lengths({4}), at(place_q), at(0), at(place_v)});
    });
  };
  EXPECT_EQ(text(96, 96), "nothing was thrown");
  const std::string
      start = "ArgumentError: attention_backward: ",
      end =
          " lets sequence 0 of 4 rows of 16 elements begin at element 97 of 160, and cuDNN reads "
          "and writes past the end; give it a place inside";
  EXPECT_EQ(text(97, 96), start + "offsets_q" + end);
  EXPECT_EQ(text(96, 97), start + "offsets_v" + end);
}

// ---- pages ----

Arrays paged(const Arrays& a) {
  return {stiletto::attention(
      a[0], a[1], a[2], {.seq_len_q = a[3], .seq_len_kv = a[4], .paged = stiletto::PagedKeys{a[5], a[6]}})};
}

TEST(Checking, page_tables_and_what_is_past_a_length) {
  const auto text = [&](int length, std::size_t table, int entry, std::int64_t nan_page,
                        std::int64_t nan_row) {
    Tensor pool = tabulate(f16, {5, 4, 2, 8}, [](const Extents&) { return Real{1}; });
    if (nan_page >= 0) element(pool, {nan_page, nan_row, 1, 2}) = not_a_number;
    std::vector<int> tables[2] = {{0, 1, 2, 3}, {0, 1, 2, 3}};  // page 4 is nobody's
    tables[table][3] = entry;
    const Array q = stiletto::ones({2, 3, 2, 8}, f16, gpu);
    Arrays a{q, to_array(pool, gpu), to_array(pool, gpu), lengths({3, 3}), lengths({8, length})};
    for (const auto& values : tables) a.push_back(on_gpu(values, {2, 2}));
    return unit::error_of([&] { check(paged, a); });
  };
  const std::string ok = "nothing was thrown", start = "ArgumentError: attention: ";
  EXPECT_EQ(text(8, 0, 3, -1, 0), ok);
  EXPECT_EQ(text(9, 0, 3, -1, 0),
            start + "seq_len_kv is 9 for batch entry 1, which has 8 rows; give it 0 to 8");
  EXPECT_EQ(text(0, 0, 3, -1, 0),
            start +
                "seq_len_kv is 0 for batch entry 1, which cuDNN makes NaN; leave the entry out, or give it a "
                "key");
  const std::string entries =
      ", and the pool has 5 pages; give every entry a page, also those past the length";
  EXPECT_EQ(text(8, 0, 5, -1, 0), start + "table_k[1, 1] is 5" + entries);
  EXPECT_EQ(text(2, 1, -1, -1, 0), start + "table_v[1, 1] is -1" + entries);
  EXPECT_EQ(text(5, 0, 3, 4, 0), ok);  // in a page that no entry names
  EXPECT_EQ(text(5, 0, 3, 3, 0), ok);  // row 4, the last of the sequence
  const std::string end =
      " of batch entry 1, past its length 5, and cuDNN lets it into the result; fill the padding with zeros";
  EXPECT_EQ(text(5, 0, 3, 3, 2), start + "k has infinity or NaN at row 6" + end);
  EXPECT_EQ(text(5, 0, 4, 3, 2), start + "v has infinity or NaN at row 6" + end);
}

// ---- float8 ----

Arrays float8(const Arrays& a, const AttentionOptions& options) {
  const auto r = stiletto::attention_float8(a[0], a[1], a[2], {a[3], a[4], a[5], a[6], a[7], a[8]}, options);
  return {r.out, r.amax_s, r.amax_out};
}

TEST(Checking, float8_has_lengths_behind_its_factors) {
  const auto text = [&](DType dtype, float scale_s, bool with_lengths, std::int64_t nan_row) {
    Tensor x = tabulate(dtype, {2, 4, 2, 16}, [](const Extents&) { return Real{1}; });
    if (nan_row >= 0) element(x, {1, nan_row, 0, 9}) = not_a_number;
    const Array array = to_array(x, gpu);
    Arrays a{array, array, array};
    for (const float factor : {1e9F, 2e9F, 3e9F, 4e9F, scale_s, 5e9F})
      a.push_back(on_gpu<float>({factor}, {1}));
    if (with_lengths) a.insert(a.end(), {lengths({4, 4}), lengths({4, 2})});
    const auto f = [&](const Arrays& t) {
      return with_lengths ? float8(t, {.seq_len_q = t[9], .seq_len_kv = t[10]}) : float8(t, {});
    };
    return unit::error_of([&] { check(f, a); });
  };
  const std::string ok = "nothing was thrown", start = "ArgumentError: attention_float8: ";
  const auto saturates = [&](const std::string& given, const std::string& most, const std::string& dtype) {
    return start + "scale_s is " + given + ", and cuDNN multiplies numbers up to 1 by it and stores up to " +
           most + " of " + dtype + "; give " + most + " at most";
  };
  for (const DType dtype : {DType::float8_e4m3, DType::float8_e5m2}) {
    EXPECT_EQ(text(dtype, 448, false, 3), ok);
    EXPECT_EQ(text(dtype, 448, true, 1), ok);
    EXPECT_EQ(
        text(dtype, 448, true, 2),
        start +
            "k has infinity or NaN at row 2 of batch entry 1, past its length 2, and cuDNN lets it into "
            "the result; fill the padding with zeros");
  }
  EXPECT_EQ(text(DType::float8_e4m3, 512, false, -1), saturates("512", "448", "float8_e4m3"));
  EXPECT_EQ(text(DType::float8_e5m2, 57344, false, -1), ok);
  EXPECT_EQ(text(DType::float8_e5m2, 65536, true, -1), saturates("65536", "57344", "float8_e5m2"));
}

/// Seed and offset of a dropout that drops nothing are not handed to cuDNN.
TEST(Checking, operands_are_counted_without_idle_dropout) {
  const Array x = stiletto::ones({2, 4, 2, 8}, f16, gpu), bias = stiletto::ones({1, 1, 4, 4}, f16, gpu);
  const Array seed = on_gpu<std::int64_t>({-5}, {1});
  for (const double rate : {0.0, 0.5}) {
    const auto f = [&](const Arrays& a) -> Arrays {
      return {stiletto::attention(a[0], a[0], a[0],
                                  {.seq_len_q = a[1],
                                   .seq_len_kv = a[2],
                                   .bias = a[3],
                                   .dropout = stiletto::AttentionDropout{rate, a[4], a[4]}})};
    };
    EXPECT_EQ(unit::error_of([&] { check(f, {x, lengths({4, 4}), lengths({4, 1}), bias, seed}); }),
              "nothing was thrown");
  }
}

}  // namespace
