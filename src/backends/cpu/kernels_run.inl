// SPDX-License-Identifier: Apache-2.0
// Runs: several cheap operations in one pass. A tile of a few vectors stays in the processor's registers
// while the steps are applied to it, so that a step costs one read of its operand and a block's memory is not
// passed through once per operation. Tiles are short enough for the processor to fetch what the next one
// reads from the caller's memory while it computes. Included by kernels.inl.

#if defined(__AVX512F__)
inline constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t vector_bytes = 32;
#else
inline constexpr std::size_t vector_bytes = 16;
#endif
/// As many as hide the latency of what is done to them; more would leave the processor no room to fetch what
/// the next tile reads from the caller's memory.
inline constexpr std::size_t tile_vectors = 8;
/// One block of f32: what was just asked for arrives while the block in between is computed.
inline constexpr std::size_t prefetch_bytes = block_size * sizeof(float);

template <class T>
struct Lanes {
  using type [[gnu::vector_size(vector_bytes)]] = T;
};
template <class T>
using Vector = typename Lanes<T>::type;

template <class V>
[[gnu::always_inline]] inline V read_vector(const void* memory) {
  V v;
  __builtin_memcpy(&v, memory, sizeof v);
  return v;
}

/// Without reading the line of memory into the caches first.
template <class V>
[[gnu::always_inline]] inline void stream_vector(void* memory, const V& v) {
#if defined(__AVX512F__)
  _mm512_stream_si512(static_cast<__m512i*>(memory), reinterpret_cast<__m512i>(v));
#elif defined(__AVX__)
  _mm256_stream_si256(static_cast<__m256i*>(memory), reinterpret_cast<__m256i>(v));
#elif defined(__x86_64__)
  _mm_stream_si128(static_cast<__m128i*>(memory), reinterpret_cast<__m128i>(v));
#else
  __builtin_memcpy(memory, &v, sizeof v);
#endif
}

/// body(value, operand) for each vector of the tile; `memory` is where the step's operand lies for this tile.
template <std::size_t count, class V, class Body>
[[gnu::always_inline]] inline void each_vector(V (&tile)[count], std::byte* memory, Body body) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < count; ++i) body(tile[i], memory + i * sizeof(V));
}

template <class T, std::size_t count>
[[gnu::always_inline]] inline void run_tile(const RunStep* step, std::size_t first) {
  using V = Vector<T>;
  V tile[count] = {};
  for (;; ++step) {
    std::byte* const memory = static_cast<std::byte*>(step->memory) + first * sizeof(T);
    const auto each = [&](auto body) __attribute__((always_inline)) { each_vector(tile, memory, body); };
    const auto with_operand = [&](auto body) __attribute__((always_inline)) {
      each([body](V& v, std::byte* at) { v = body(v, read_vector<V>(at)); });
    };
    const auto alone = [&](auto body) __attribute__((always_inline)) {
      each([body](V& v, std::byte*) { v = body(v); });
    };
    switch (step->code) {
      case RunCode::load:
        each([](V& v, std::byte* at) { v = read_vector<V>(at); });
        break;
      case RunCode::store:
        each([](V& v, std::byte* at) { __builtin_memcpy(at, &v, sizeof v); });
        break;
      case RunCode::stream:
        each([](V& v, std::byte* at) { stream_vector(at, v); });
        break;
      case RunCode::add:
        with_operand([](V a, V b) { return a + b; });
        break;
      case RunCode::subtract:
        with_operand([](V a, V b) { return a - b; });
        break;
      case RunCode::multiply:
        with_operand([](V a, V b) { return a * b; });
        break;
      case RunCode::divide:
        with_operand([](V a, V b) { return a / b; });
        break;
      case RunCode::maximum:
        with_operand([](V a, V b) { return ((a > b) | (a != a)) ? a : b; });
        break;
      case RunCode::minimum:
        with_operand([](V a, V b) { return ((a < b) | (a != a)) ? a : b; });
        break;
      case RunCode::negate:
        alone([](V a) { return -a; });
        break;
      case RunCode::square:
        alone([](V a) { return a * a; });
        break;
      case RunCode::relu:
        alone([](V a) { return a < V{} ? V{} : a; });
        break;
      case RunCode::prefetch:
        each([](V&, std::byte* at) { __builtin_prefetch(at + prefetch_bytes); });
        break;
      case RunCode::none:
        __builtin_unreachable();
      case RunCode::end:
        return;
    }
  }
}

template <class T>
void run_loop(const RunStep* steps, std::size_t n) {
  constexpr std::size_t tile = tile_vectors * vector_bytes / sizeof(T);
  constexpr std::size_t group = lane_group * sizeof(T) / vector_bytes;  // vectors in a group of lanes
  std::size_t first = 0;
  for (; first + tile <= n; first += tile) run_tile<T, tile_vectors>(steps, first);
  for (; first < n; first += lane_group) run_tile<T, group>(steps, first);
}

template <class... T>
constexpr void add_runs(Kernels& table, Registers<T...>) {
  ((table.run[register_index<T>] = &run_loop<T>), ...);
}
