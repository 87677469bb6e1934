// SPDX-License-Identifier: Apache-2.0
// The CPU's matmul without post-operations: dtypes, sizes, layouts, batches, alpha, accumulation, special
// values, and one Matmul executed by several threads.
#include <gtest/gtest.h>

#include <thread>

#include "matmul_trial.hpp"

namespace stiletto::detail::cpu::test {
namespace {

const Extents sizes{1, 2, 3, 5, 17, 33, 64, 105};
constexpr Order orders[] = {Order::rows, Order::columns};

template <class T>
T one_of(const std::vector<T>& values, Random& random) {
  return values[random() % values.size()];
}

TEST(Matmul, EverySizeOfFloat32) {
  Random random(1);
  for (const std::int64_t m : sizes)
    for (const std::int64_t n : sizes)
      for (const std::int64_t k : sizes)
        Trial(problem_of(DType::float32, DType::float32, DType::float32, {}, m, n, k, orders[random() % 2],
                         orders[random() % 2], orders[random() % 2]),
              random)
            .check();
}

TEST(Matmul, EveryDtypeInEveryLayout) {
  Random random(2);
  for (const Dtypes& d : all_dtypes())
    for (const Order a : orders)
      for (const Order b : orders)
        for (const Order c : orders)
          for (const std::int64_t gap : {0, 0, 3, 16})
            Trial(problem_of(d.a, d.b, d.c, {}, one_of(sizes, random), one_of(sizes, random),
                             one_of(sizes, random), a, b, c, gap),
                  random)
                .check();
}

TEST(Matmul, ExtentsOfOneWithStrangeStrides) {
  Random random(3);
  for (const Dtypes& d : all_dtypes())
    for (const std::int64_t m : {1, 4})
      for (const std::int64_t n : {1, 5})
        for (const std::int64_t k : {1, 6})
          for (const std::int64_t stride : {0, 1, 2, 1000, -3}) {
            MatmulProblem p =
                problem_of(d.a, d.b, d.c, {3}, m, n, k, orders[random() % 2], orders[random() % 2]);
            if (m == 1) p.a.strides[1] = p.c.strides[1] = stride;
            if (k == 1) p.a.strides[2] = p.b.strides[1] = stride;
            if (n == 1) p.b.strides[2] = p.c.strides[2] = stride;
            Trial(p, random).check();
          }
}

// Several blocks in every direction, whatever the number of threads.
TEST(Matmul, LargerThanOneBlock) {
  Random random(4);
  for (const Dtypes& d : all_dtypes()) {
    Trial(problem_of(d.a, d.b, d.c, {}, 301, 203, 270), random).check();
    Trial(problem_of(d.a, d.b, d.c, {}, 4, 2049, 65, Order::rows, orders[random() % 2]), random).check();
    Trial(problem_of(d.a, d.b, d.c, {}, 1500, 3, 70, orders[random() % 2]), random).check();
    Trial(problem_of(d.a, d.b, d.c, {5}, 70, 65, 129), random).check();
  }
}

// Batch axes that one operand, the other or both do not have, in every combination over three axes.
TEST(Matmul, BroadcastBatches) {
  Random random(5);
  const Extents batch{2, 3, 4};
  for (const Dtypes& d : all_dtypes())
    for (unsigned pattern = 0; pattern < 64; ++pattern) {
      MatmulProblem p = problem_of(d.a, d.b, d.c, batch, 1 + random() % 6, 1 + random() % 6, 1 + random() % 6,
                                   orders[random() % 2], orders[random() % 2], orders[random() % 2]);
      for (std::size_t axis = 0; axis < 3; ++axis) {
        if ((pattern >> axis & 1) != 0) p.a.strides[axis] = 0;
        if ((pattern >> (axis + 3) & 1) != 0) p.b.strides[axis] = 0;
      }
      Trial(p, random).check();
    }
}

TEST(Matmul, BatchStridesAreFree) {
  Random random(6);
  for (const Dtypes& d : all_dtypes()) {
    MatmulProblem p = problem_of(d.a, d.b, d.c, {3, 4}, 5, 6, 7);
    p.a.strides = {-35, 200, 7, 1};  // backwards
    p.b.strides = {6, 18, 72, 1};    // between rows: interleaved heads
    p.c.strides = {30, 90, 6, 1};    // the other way round
    Trial(p, random).check();
    p.a.strides = {1, 2, 7, 1};  // overlapping windows
    p.b.strides = {1000, -50, 1, 7};
    p.c.strides = {24, 6, 72, 1};
    Trial(p, random).check();
    p = problem_of(d.a, d.b, d.c, {1, 2, 1, 3, 2, 2}, 2, 3, 4);  // rank 8
    Trial(p, random).check();
  }
}

// One weight matrix for a whole batch: the batch becomes more rows. Also with vectors, and with c transposed.
TEST(Matmul, BatchesFold) {
  Random random(7);
  for (const std::int64_t m : {1, 9})
    for (const Order c : orders) {
      MatmulProblem p = problem_of(DType::float32, DType::float32, DType::float32, {4, 5}, m, 8, 7);
      p.b = broadcast(p.b, {0, 1});
      Trial(p, random).check();
      p = problem_of(DType::float32, DType::float32, DType::float32, {4, 5}, 8, m, 7, Order::rows,
                     Order::columns, c);
      p.a = broadcast(p.a, {0, 1});
      Trial(p, random).check();
    }
  MatmulProblem p = problem_of(DType::float32, DType::float32, DType::float32, {6}, 1, 3, 5);
  p.a.strides = {1, 0, 1};  // windows of a vector: as rows they would overlap
  p.b.strides = {0, 3, 1};
  Trial(p, random).check();
}

TEST(Matmul, Alpha) {
  Random random(8);
  for (const Dtypes& d : all_dtypes())
    for (const double alpha : {0.0, 1.0, -1.0, 2.0, -3.0}) {
      MatmulProblem p = problem_of(d.a, d.b, d.c, {}, 17, 21, 33);
      p.alpha = is_floating(d.c) ? alpha / 3 : alpha;
      Trial(p, random).check();
    }
}

TEST(Matmul, Accumulate) {
  Random random(9);
  for (const Dtypes& d : all_dtypes()) {
    if (d.c != DType::float32) continue;
    for (const Order order : orders)
      for (const std::int64_t gap : {0, 5})
        for (const double alpha : {1.0, -0.5}) {
          MatmulProblem p = problem_of(d.a, d.b, d.c, {3}, 17, 21, 33, Order::rows, Order::rows, order, gap);
          p.accumulate = true;
          p.alpha = alpha;
          Trial(p, random).check();
        }
  }
}

TEST(Matmul, IntegersWrap) {
  Random random(10);
  MatmulProblem p = problem_of(DType::int8, DType::int8, DType::int32, {}, 3, 4, 140000);
  Trial trial(p, random);
  for (std::int64_t i = 0; i < trial.a.buffer.size(); ++i) trial.a.buffer.set(i, -128);
  for (std::int64_t i = 0; i < trial.b.buffer.size(); ++i) trial.b.buffer.set(i, -128);
  trial.check();
  for (const DType dtype : {DType::int32, DType::int64}) {
    Trial wide(problem_of(dtype, dtype, dtype, {}, 5, 6, 9), random);
    for (std::int64_t i = 0; i < wide.a.buffer.size(); ++i) wide.a.buffer.set(i, 2147480000 - i);
    for (std::int64_t i = 0; i < wide.b.buffer.size(); ++i) wide.b.buffer.set(i, 2147470000 + i);
    wide.check();
  }
}

TEST(Matmul, NanAndInfinityStayInTheirRowAndColumn) {
  Random random(11);
  for (const Dtypes& d : all_dtypes()) {
    if (!is_floating(d.a)) continue;
    for (const std::int64_t n : {3, 40}) {
      Trial trial(problem_of(d.a, d.b, d.c, {}, 9, n, 20), random);
      const auto a = [&](std::int64_t i, std::int64_t k, double v) {
        trial.a.buffer.set(trial.a.index({i, k}), v);
      };
      const auto b = [&](std::int64_t k, std::int64_t j, double v) {
        trial.b.buffer.set(trial.b.index({k, j}), v);
      };
      a(1, 4, not_a_number);
      a(3, 2, infinity);
      b(2, 1, 0);                                       // ∞·0
      for (std::int64_t j = 0; j < n; ++j) b(4, j, 0);  // NaN·0
      a(5, 7, -infinity);
      b(9, 2, not_a_number);
      a(7, 9, 0);
      trial.check();
    }
  }
}

TEST(Matmul, SeveralThreadsExecuteOneMatmul) {
  Random random(12);
  for (const Dtypes& d : all_dtypes()) {
    Trial trial(problem_of(d.a, d.b, d.c, {2}, 70, 96, 64), random);
    Tensor first = trial.c;
    trial.execute(first);
    std::atomic<int> different{0};
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round) {
          Tensor result = trial.c;
          trial.execute(result);
          if (!(result.buffer == first.buffer)) ++different;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(different.load(), 0) << trial.describe();
  }
}

// ---- public reports against other libraries (the numbers are those of the project's list of cases)

TEST(MatmulCases, Number15And16StrideZero) {
  Random random(13);
  for (const bool left : {true, false}) {
    MatmulProblem p = problem_of(DType::float32, DType::float32, DType::float32, {32}, 32, 32, 32);
    (left ? p.a : p.b).strides[0] = 0;
    Trial(p, random).check();
  }
  const MatrixLayout columns_repeated{DType::float32, {6, 1, 0}};
  EXPECT_FALSE(reads_in_place(columns_repeated, 6, 5, DType::float32));
}

TEST(MatmulCases, Number52OldNanIsNotRead) {
  Random random(14);
  for (const Dtypes& d : all_dtypes())
    for (const std::int64_t n : {1, 16, 17, 33})
      for (const float old : {not_a_number, infinity}) {
        if (!is_floating(d.c)) continue;
        Trial trial(problem_of(d.a, d.b, d.c, {}, n, n, n), random);
        for (std::int64_t i = 0; i < trial.a.buffer.size(); ++i)
          trial.a.buffer.set(i, static_cast<double>(i % 5) - 2);
        for (std::int64_t i = 0; i < trial.b.buffer.size(); ++i)
          trial.b.buffer.set(i, static_cast<double>(i % 3) - 1);
        for (std::int64_t i = 0; i < trial.c.buffer.size(); ++i) trial.c.buffer.set(i, old);
        Tensor result = trial.c;
        trial.execute(result);
        each_position(result.extents, [&](const Extents& at) {
          ASSERT_EQ(result.buffer.get(result.index(at)), trial.expected(at)) << trial.describe();
        });
      }
}

TEST(MatmulCases, Number53OddSizesInAllLayouts) {
  Random random(15);
  const std::vector<Extents> odd{{3, 5, 7}, {1, 105, 107}, {2, 3, 4}};
  for (const Dtypes& d : all_dtypes())
    for (const Extents& size : odd)
      for (const Order a : orders)
        for (const Order b : orders) {
          Trial trial(problem_of(d.a, d.b, d.c, {}, size[0], size[1], size[2], a, b), random);
          each_position(trial.a.extents, [&](const Extents& at) {
            trial.a.buffer.set(trial.a.index(at), static_cast<double>(at[0] + at[1]));
          });
          each_position(trial.b.extents, [&](const Extents& at) {
            trial.b.buffer.set(trial.b.index(at), std::fabs(static_cast<double>(at[0] - at[1])));
          });
          trial.check();
        }
}

TEST(MatmulCases, Number54TransposedDestination) {
  Random random(16);
  for (const Dtypes& d : all_dtypes())
    Trial(problem_of(d.a, d.b, d.c, {}, 20, 5, 13, Order::rows, Order::rows, Order::columns), random).check();
}

TEST(MatmulCases, Number55LeadingDimensionOfExtentOne) {
  Random random(17);
  MatmulProblem p = problem_of(DType::float32, DType::float32, DType::float32, {10}, 4, 5, 1);
  p.a.strides = {4, 1, 4};
  Trial trial(p, random);
  for (std::int64_t i = 0; i < 40; ++i) trial.a.buffer.set(trial.a.first + i, static_cast<double>(i + 1));
  for (std::int64_t i = 0; i < 50; ++i) trial.b.buffer.set(trial.b.first + i, static_cast<double>(i + 1));
  trial.check();
}

// ---- the contract's questions

TEST(MatmulContract, Dtypes) {
  const DType f16 = DType::float16, f32 = DType::float32, f64 = DType::float64, i8 = DType::int8,
              u8 = DType::uint8;
  const DType i32 = DType::int32, i64 = DType::int64, bf16 = DType::bfloat16;
  EXPECT_EQ(packed_dtype(f16, f16), f32);
  EXPECT_EQ(packed_dtype(bf16, f32), f32);
  EXPECT_EQ(packed_dtype(f32, bf16), f32);
  EXPECT_EQ(packed_dtype(DType::float8_e4m3, DType::float8_e5m2), f32);
  EXPECT_EQ(packed_dtype(f16, f64), f64);
  EXPECT_EQ(packed_dtype(i32, f64), f64);
  EXPECT_EQ(packed_dtype(i32, bf16), f32);
  EXPECT_EQ(packed_dtype(i8, u8), i8);
  EXPECT_EQ(packed_dtype(u8, i8), u8);
  EXPECT_EQ(packed_dtype(i8, i32), i32);
  EXPECT_EQ(packed_dtype(i32, i64), i64);
  EXPECT_EQ(packed_dtype(DType::boolean, i8), i32);
  EXPECT_EQ(product_dtype(bf16, bf16), f32);
  EXPECT_EQ(product_dtype(i8, u8), i32);
  EXPECT_EQ(product_dtype(i8, i64), i64);
  EXPECT_EQ(product_dtype(f16, f64), f64);
  EXPECT_TRUE(onednn_version().starts_with("oneDNN 3."));
}

TEST(MatmulContract, LayoutsReadAndWritten) {
  const auto reads = [](DType dtype, const Extents& strides, std::int64_t rows, std::int64_t columns) {
    return reads_in_place({dtype, strides}, rows, columns, dtype);
  };
  EXPECT_TRUE(reads(DType::float32, {0, -60, 5, 1}, 4, 5));
  EXPECT_TRUE(reads(DType::float32, {1, 9}, 4, 5));
  EXPECT_TRUE(reads(DType::float32, {-7, 3}, 1, 5));
  EXPECT_TRUE(reads(DType::float32, {3, 0}, 4, 1));
  EXPECT_FALSE(reads(DType::float32, {0, 1}, 4, 5));
  EXPECT_FALSE(reads(DType::float32, {1, 1}, 4, 5));
  EXPECT_FALSE(reads(DType::float32, {10, 2}, 4, 5));
  EXPECT_FALSE(reads(DType::float32, {-5, 1}, 4, 5));
  EXPECT_TRUE(reads(DType::float64, {-10, 0}, 4, 5));
  EXPECT_TRUE(reads(DType::int32, {0, 2}, 4, 5));
  EXPECT_FALSE(reads(DType::float16, {5, 1}, 4, 5));
  EXPECT_FALSE(reads_in_place({DType::bfloat16, {5, 1}}, 4, 5, DType::float32));
  const auto writes = [](DType dtype, const Extents& strides, DType of) {
    return writes_in_place({dtype, strides}, 4, 5, of, of);
  };
  EXPECT_TRUE(writes(DType::float32, {8, 1}, DType::float32));
  EXPECT_TRUE(writes(DType::float32, {1, 4}, DType::float16));
  EXPECT_FALSE(writes(DType::float32, {10, 2}, DType::float32));
  EXPECT_FALSE(writes(DType::bfloat16, {5, 1}, DType::float32));
  EXPECT_TRUE(writes(DType::int64, {-10, 2}, DType::int64));
  EXPECT_FALSE(writes(DType::float32, {5, 1}, DType::int32));
}

}  // namespace
}  // namespace stiletto::detail::cpu::test
