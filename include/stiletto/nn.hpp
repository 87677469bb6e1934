// SPDX-License-Identifier: Apache-2.0
// Linear algebra, attention, normalisation, convolution and pooling. An `_into` form writes the caller's
// array, casting to its dtype, and allocates nothing. ShapeError and DTypeError name the operation and the
// operands that do not fit.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "stiletto/array.hpp"

namespace stiletto {

/// NumPy's rules: (…, m, k)·(…, k, n), a vector as a row on the left or a column on the right; leading batch
/// axes broadcast pairwise. The result has the operands' promoted dtype, int32 for 8-bit integers, float32
/// for float8.
STILETTO_API Array matmul(const Array&, const Array&);

/// c = alpha·a·b + beta·c. With beta == 0 the old c is not read. c has the product's shape.
STILETTO_API void matmul_into(const Array& c, const Array& a, const Array& b, double alpha = 1,
                              double beta = 0);

// ---- attention ----

/// Which keys a query sees. top_left: query i sees keys up to i. bottom_right: up to i + (keys − queries),
/// each sequence's own lengths counting.
enum class Causal : std::uint8_t { none, top_left, bottom_right };

/// Probabilities of attention are kept with 1 − probability, and then divided by that. seed and offset are
/// int64 arrays of one element, read at each call: the same two give the same mask on one backend; the CPU's
/// masks are others than cuDNN's. A training step adds at least the number of its probabilities to the
/// offset; offsets less than 4 apart give masks that are partly the same.
struct AttentionDropout {
  double probability = 0;
  Array seed, offset;
};

/// Sequences of different lengths behind one another in one array: q (rows, heads, head_dim), k and v
/// (rows_kv, heads_kv, …), out (rows, heads, width). Each of the offsets, int32 or int64 (batch + 1), has the
/// element of its array at which a sequence begins; seq_len_q and seq_len_kv say how far it goes. Rows of
/// results that are no sequence's are 0 on the CPU; on a GPU they are undefined, as are those of the output
/// of a sequence without keys.
struct PackedSequences {
  Array offsets_q, offsets_k, offsets_v, offsets_out;
  std::int64_t max_seq_q = 0, max_seq_kv = 0;  ///< no sequence is longer
};

/// k and v in pages (pages, page_size, heads_kv, …) of a pool: row j of sequence b lies in page
/// table[b, j / page_size]. The tables are int32 (batch, pages of the longest sequence); seq_len_q and
/// seq_len_kv have to be given. On a GPU page_size is a power of 2, and every entry, also past a length, a
/// page of the pool.
struct PagedKeys {
  Array table_k, table_v;
};

struct AttentionOptions {
  std::optional<Array> scale = {};  ///< a number; by default 1/√head_dim. Bound by value
  Causal causal = Causal::none;
  /// int32 (batch), given together, read at each call: what lies past a sequence's length is not seen, and
  /// rows of the output past it are undefined.
  std::optional<Array> seq_len_q = {};
  std::optional<Array> seq_len_kv = {};
  /// Added to scale·q·kᵀ: (batch or 1, heads or 1, seq_q, seq_kv).
  std::optional<Array> bias = {};
  /// With a causal mask: a query sees the last `window` keys up to its bound, itself included, and none
  /// before.
  std::optional<std::int64_t> window = {};
  /// float32 (heads): a logit per head that takes part in the softmax and has no value.
  std::optional<Array> sink = {};
  std::optional<AttentionDropout> dropout = {};
  std::optional<PackedSequences> packed = {};  ///< forward and backward
  std::optional<PagedKeys> paged = {};         ///< forward only
};
struct AttentionResult {
  Array out;
  Array stats;  ///< float32 (batch, heads, seq_q, 1): the natural logarithm of the softmax's denominator
};
/// dbias and dsink are empty handles unless the options have a bias or a sink.
struct AttentionGradients {
  Array dq, dk, dv, dbias = {}, dsink = {};
};

/// softmax(scale·q·kᵀ)·v for q (batch, seq_q, heads, head_dim), k (batch, seq_kv, heads_kv, head_dim) and
/// v (batch, seq_kv, heads_kv, width), of one dtype; heads_kv divides heads, and head h of q sees head
/// h/(heads/heads_kv) of k and v. The output (batch, seq_q, heads, width) has q's dtype and memory order. A
/// query that sees no key gives 0 and stats −∞.
STILETTO_API Array attention(const Array& q, const Array& k, const Array& v, const AttentionOptions& = {});
STILETTO_API AttentionResult attention_with_stats(const Array& q, const Array& k, const Array& v,
                                                  const AttentionOptions& = {});
STILETTO_API void attention_into(const Array& out, const Array& q, const Array& k, const Array& v,
                                 const AttentionOptions& = {});
STILETTO_API void attention_with_stats_into(const Array& out, const Array& stats, const Array& q,
                                            const Array& k, const Array& v, const AttentionOptions& = {});
/// The gradients of sum(d_out·attention(q, k, v)); out, stats and the options are the forward call's.
STILETTO_API AttentionGradients attention_backward(const Array& d_out, const Array& q, const Array& k,
                                                   const Array& v, const Array& out, const Array& stats,
                                                   const AttentionOptions& = {});
STILETTO_API void attention_backward_into(const Array& dq, const Array& dk, const Array& dv,
                                          const Array& d_out, const Array& q, const Array& k, const Array& v,
                                          const Array& out, const Array& stats, const AttentionOptions& = {});

/// Factors of attention in float8, float32 arrays of one element. What is stored times its descale is the
/// value: s are the probabilities, which are multiplied by scale_s and stored as float8 between the two
/// products, and the output is multiplied by scale_out before it is stored. On a GPU it is exponentials of
/// up to 1 that are stored, and divided by their sum later: there a scale_s above the largest float8
/// (float8_e4m3: 448) saturates.
struct Float8Scales {
  Array descale_q, descale_k, descale_v, descale_s, scale_s, scale_out;
};
struct Float8AttentionResult {
  Array out;       ///< q's dtype
  Array stats;     ///< as attention_with_stats
  Array amax_s;    ///< float32 (1): the largest probability
  Array amax_out;  ///< float32 (1): the output's largest magnitude before scale_out; without NaN on GPUs
};
/// attention of float8_e4m3 or float8_e5m2 q, k and v, with scale, causal masks and lengths among the
/// options.
STILETTO_API Float8AttentionResult attention_float8(const Array& q, const Array& k, const Array& v,
                                                    const Float8Scales& scales, const AttentionOptions& = {});

// ---- normalisation ----

struct RmsNormOptions {
  std::optional<Array> bias = {};
  float epsilon = 1e-5F;
};
struct LayerNormOptions {
  float epsilon = 1e-5F;
};
/// inv_rms, mean and inv_std are float32 (float64 of float64), of x's shape with 1 in place of the normalised
/// axes: what the backward functions take.
struct RmsNormResult {
  Array y, inv_rms;
};
struct LayerNormResult {
  Array y, mean, inv_std;
};
struct NormGradients {
  Array dx, dscale, dbias = {};  ///< dbias: an empty handle where there was no bias
};

/// x/√(mean(x²) + epsilon)·scale (+ bias) over the trailing axes of x that scale spans. scale and bias, of
/// one shape, are inputs or captures of a trace, not computed. The result has x's dtype and memory order.
STILETTO_API Array rms_norm(const Array& x, const Array& scale, const RmsNormOptions& = {});
STILETTO_API void rms_norm_into(const Array& y, const Array& x, const Array& scale,
                                const RmsNormOptions& = {});
STILETTO_API RmsNormResult rms_norm_with_stats(const Array& x, const Array& scale,
                                               const RmsNormOptions& = {});
/// The gradients of sum(d_y·rms_norm(x, scale)); dscale and dbias have scale's dtype.
STILETTO_API NormGradients rms_norm_backward(const Array& d_y, const Array& x, const Array& scale,
                                             const Array& inv_rms, bool bias = false);

/// (x − mean(x))/√(var(x) + epsilon)·scale + bias, as rms_norm.
STILETTO_API Array layer_norm(const Array& x, const Array& scale, const Array& bias,
                              const LayerNormOptions& = {});
STILETTO_API void layer_norm_into(const Array& y, const Array& x, const Array& scale, const Array& bias,
                                  const LayerNormOptions& = {});
STILETTO_API LayerNormResult layer_norm_with_stats(const Array& x, const Array& scale, const Array& bias,
                                                   const LayerNormOptions& = {});
STILETTO_API NormGradients layer_norm_backward(const Array& d_y, const Array& x, const Array& scale,
                                               const Array& mean, const Array& inv_std);

/// (x − mean)·inv_variance·scale + bias for x (batch, channels, spatial…) of rank 3 and more; the others are
/// vectors of the channels, and inv_variance = 1/√(var + epsilon).
STILETTO_API Array batch_norm(const Array& x, const Array& scale, const Array& bias, const Array& mean,
                              const Array& inv_variance);
STILETTO_API void batch_norm_into(const Array& y, const Array& x, const Array& scale, const Array& bias,
                                  const Array& mean, const Array& inv_variance);

struct BatchNormOptions {
  float epsilon = 1e-5F;
  float momentum = 0.1F;  ///< next = (1 − momentum)·running + momentum·batch, the batch's variance unbiased
};
/// All but y are float32 (float64 of float64) vectors of the channels. mean and inv_std are the batch's.
struct BatchNormResult {
  Array y, mean, inv_std, running_mean, running_variance;
};
/// Normalises each channel of x (batch, channels, spatial…) by its own mean and (biased) variance.
STILETTO_API BatchNormResult batch_norm_training(const Array& x, const Array& scale, const Array& bias,
                                                 const Array& running_mean, const Array& running_variance,
                                                 const BatchNormOptions& = {});
STILETTO_API NormGradients batch_norm_backward(const Array& d_y, const Array& x, const Array& scale,
                                               const Array& mean, const Array& inv_std);

// ---- convolution and pooling ----

/// One value for every spatial axis, or one each; empty: the default.
class PerAxis {
 public:
  PerAxis() = default;
  PerAxis(std::int64_t value) : values_{value} {}  // NOLINT(google-explicit-constructor): `.stride = 2`
  PerAxis(std::initializer_list<std::int64_t> values) : values_(values) {}
  const Dims& values() const { return values_; }

 private:
  Dims values_;
};

/// `post_padding`: by default as pre_padding. Padding counts zeros on each side of a spatial axis.
struct ConvOptions {
  PerAxis stride = 1;
  PerAxis dilation = 1;
  PerAxis pre_padding = 0;
  PerAxis post_padding = {};
};
/// `stride`: by default the window.
struct PoolOptions {
  PerAxis stride = {};
  PerAxis pre_padding = 0;
  PerAxis post_padding = {};
};
struct AvgPoolOptions {
  PerAxis stride = {};
  PerAxis pre_padding = 0;
  PerAxis post_padding = {};
  bool include_padding = false;  ///< whether the zeros of the padding count
};

/// Cross-correlation of x (batch, channels, spatial…) with w (out_channels, channels/groups, spatial…), with
/// 1 to 3 spatial axes. The result has the operands' promoted dtype (int32 of int8) and x's memory order.
STILETTO_API Array conv(const Array& x, const Array& w, const ConvOptions& = {});
STILETTO_API void conv_into(const Array& y, const Array& x, const Array& w, const ConvOptions& = {});
/// The gradient of sum(d_y·conv(x, w)) by an x of this shape.
STILETTO_API Array conv_backward_data(const Array& d_y, const Array& w, const Shape& x_shape,
                                      const ConvOptions& = {});
/// The same by a w of this shape.
STILETTO_API Array conv_backward_filter(const Array& d_y, const Array& x, const Shape& w_shape,
                                        const ConvOptions& = {});

/// The largest of each window; padding does not count, NaN does.
STILETTO_API Array max_pool(const Array& x, PerAxis window, const PoolOptions& = {});
STILETTO_API void max_pool_into(const Array& y, const Array& x, PerAxis window, const PoolOptions& = {});
STILETTO_API Array avg_pool(const Array& x, PerAxis window, const AvgPoolOptions& = {});
STILETTO_API void avg_pool_into(const Array& y, const Array& x, PerAxis window, const AvgPoolOptions& = {});

}  // namespace stiletto
