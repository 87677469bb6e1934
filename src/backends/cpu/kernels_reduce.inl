// SPDX-License-Identifier: Apache-2.0
// Reductions along a block and across blocks. They combine by the scalar functions of kernels_pointwise.inl,
// in the accumulator's type, in independent lanes: one running value would wait for itself. Included by
// kernels.inl.

template <class F, class A, class T>
void reduce(void* accumulator, const void* v, std::size_t n) {
  constexpr std::size_t lane_count = 32;
  const T* values = static_cast<const T*>(v);
  A total = *static_cast<const A*>(accumulator);
  std::size_t i = 0;
  if (n >= lane_count) {
    A lanes[lane_count];
    for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[lane] = convert<A>(values[lane]);
    for (i = lane_count; i + lane_count <= n; i += lane_count) {
      for (std::size_t lane = 0; lane < lane_count; ++lane) {
        lanes[lane] = F::apply(lanes[lane], convert<A>(values[i + lane]));
      }
    }
    for (std::size_t width = lane_count / 2; width > 0; width /= 2) {
      for (std::size_t lane = 0; lane < width; ++lane)
        lanes[lane] = F::apply(lanes[lane], lanes[lane + width]);
    }
    total = F::apply(total, lanes[0]);
  }
  for (; i < n; ++i) total = F::apply(total, convert<A>(values[i]));
  *static_cast<A*>(accumulator) = total;
}

template <class F, class A, class T>
void accumulate(void* accumulator, const void* v, std::size_t n) {
  const T* values = static_cast<const T*>(v);
  A* totals = static_cast<A*>(accumulator);
  for_each(n, [=](std::size_t i) { totals[i] = F::apply(totals[i], convert<A>(values[i])); });
}

template <class F, class A, class T>
constexpr void add_combine(Kernels& table, Combine combine) {
  const auto c = static_cast<std::size_t>(combine);
  table.reduce[c][register_index<T>] = &reduce<F, A, T>;
  table.accumulate[c][register_index<T>] = &accumulate<F, A, T>;
  table.merge[c][register_index<A>] = &accumulate<F, A, A>;
}

template <class T>
using SumType = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;

template <class... T>
constexpr void add_reductions(Kernels& table, Registers<T...>) {
  (add_combine<Add, SumType<T>, T>(table, Combine::sum), ...);
  (add_combine<Multiply, SumType<T>, T>(table, Combine::prod), ...);
  (add_combine<Maximum, T, T>(table, Combine::max), ...);
  (add_combine<Minimum, T, T>(table, Combine::min), ...);
}
