// SPDX-License-Identifier: Apache-2.0
// Tokens are the rows of (rows·length, kHidden) matrices. Each function at the top is one fused step, with a
// plan for each shape, which jit finds; on a GPU it is one kernel.
#include "model.hpp"

#include <algorithm>
#include <cmath>

namespace st = stiletto;

namespace minilm {
namespace {

st::Array dense(const st::Array& x, const st::Array& weight, const st::Array& bias) {
  return st::matmul(x, st::transpose(weight)) + bias;
}

st::Array dense_gelu(const st::Array& x, const st::Array& weight, const st::Array& bias) {
  return st::gelu(dense(x, weight, bias));
}

st::Array dense_residual(const st::Array& x, const st::Array& weight, const st::Array& bias,
                         const st::Array& residual) {
  return dense(x, weight, bias) + residual;
}

st::Array normalise(const st::Array& x, const st::Array& scale, const st::Array& bias) {
  return st::layer_norm(x, scale, bias, {.epsilon = 1e-12F});
}

// Queries past a sentence's end are computed like the others: what they give has to be finite, as the mean
// multiplies it by 0.
st::Array attend(const st::Array& q, const st::Array& k, const st::Array& v, const st::Array& all,
                 const st::Array& lengths) {
  return st::attention(q, k, v, {.seq_len_q = all, .seq_len_kv = lengths});
}

st::Array weighted_sum(const st::Array& shares, const st::Array& x) {
  return st::cast(st::matmul(shares, x), st::DType::float32);
}

// x/√(mean(x²))·1/√n is x/√(Σx²).
st::Array scale_to_unit(const st::Array& x, const st::Array& unit) {
  return st::rms_norm(x, unit, {.epsilon = 0});
}

}  // namespace

st::Array Model::operator()(const Batch& batch) const {
  const st::Array lengths = st::from_data(batch.lengths, {batch.rows}, device_);
  st::Array x = embeddings(batch);
  for (const Layer& layer : layers_) {
    const st::Array seen = attention(layer, x, batch, lengths);
    x = st::jit(dense_residual, seen, layer.attention_output.weight, layer.attention_output.bias, x);
    x = st::jit(normalise, x, layer.attention_norm.scale, layer.attention_norm.bias);
    const st::Array inner = st::jit(dense_gelu, x, layer.inner.weight, layer.inner.bias);
    x = st::jit(dense_residual, inner, layer.output.weight, layer.output.bias, x);
    x = st::jit(normalise, x, layer.output_norm.scale, layer.output_norm.bias);
  }
  return st::jit(scale_to_unit, pooled(x, batch), unit_);
}

st::Array Model::embeddings(const Batch& batch) const {
  std::vector<float> words(batch.tokens.size() * kHidden);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i)
    std::copy_n(words_.begin() + batch.tokens[i] * kHidden, kHidden, &words[i * kHidden]);
  const auto sum = [&](const st::Array& word, const st::Array& position, const st::Array& type) {
    return st::cast(word + position + type, dtype_);
  };
  const st::Array word = st::from_data(words, {batch.rows, batch.length, kHidden}, device_);
  const st::Array x = st::jit(sum, word, st::slice(positions_, {{0, batch.length}}), type_);
  return st::jit(normalise, st::reshape(x, {-1, kHidden}), embedding_norm_.scale, embedding_norm_.bias);
}

st::Array Model::attention(const Layer& layer, const st::Array& x, const Batch& batch,
                           const st::Array& lengths) const {
  const st::Array packed = st::jit(dense, x, layer.query_key_value.weight, layer.query_key_value.bias);
  const st::Array views = st::reshape(packed, {batch.rows, batch.length, 3, kHeads, kHidden / kHeads});
  const auto view = [&](std::int64_t i) { return st::squeeze(st::slice(views, {{}, {}, {i, i + 1}}), 2); };
  const std::vector<std::int32_t> all(batch.lengths.size(), static_cast<std::int32_t>(batch.length));
  const st::Array seen =
      st::jit(attend, view(0), view(1), view(2), st::from_data(all, {batch.rows}, device_), lengths);
  return st::reshape(seen, {-1, kHidden});
}

// The mean over a sentence's tokens, as a product with each token's share.
st::Array Model::pooled(const st::Array& x, const Batch& batch) const {
  std::vector<float> shares(batch.tokens.size());
  for (std::size_t row = 0; row < batch.lengths.size(); ++row)
    std::fill_n(shares.begin() + static_cast<std::ptrdiff_t>(row) * batch.length, batch.lengths[row],
                1 / static_cast<float>(batch.lengths[row]));
  const st::Array tokens = st::reshape(x, {batch.rows, batch.length, kHidden});
  const st::Array mean = st::jit(weighted_sum, upload(shares, {batch.rows, 1, batch.length}, dtype_), tokens);
  return st::reshape(mean, {batch.rows, kHidden});
}

Model::Model(const Weights& weights, st::Device device, st::DType dtype)
    : device_(device),
      dtype_(dtype),
      words_(weights.tensor("embeddings.word_embeddings.weight", {kVocabulary, kHidden})),
      positions_(upload(weights.tensor("embeddings.position_embeddings.weight", {kPositions, kHidden}),
                        {kPositions, kHidden}, st::DType::float32)),
      embedding_norm_(norm(weights, "embeddings.LayerNorm")),
      unit_(upload(std::vector<float>(kHidden, 1 / std::sqrt(static_cast<float>(kHidden))), {kHidden},
                   st::DType::float32)) {
  std::vector<float> types = weights.tensor("embeddings.token_type_embeddings.weight", {2, kHidden});
  types.resize(kHidden);  // a sentence alone is of the first type
  type_ = upload(types, {kHidden}, st::DType::float32);
  for (int i = 0; i < kLayers; ++i) layers_.push_back(layer(weights, i));
}

st::Array Model::upload(const std::vector<float>& values, st::Shape shape, st::DType dtype) const {
  return st::cast(st::from_data(values, shape), dtype).to(device_);
}

// Some matrices of the same inputs, one below the other.
Linear Model::linear(const Weights& weights, const std::vector<std::string>& names, std::int64_t outputs,
                     std::int64_t inputs) const {
  std::vector<float> weight, bias;
  for (const std::string& name : names) {
    const std::vector<float> rows = weights.tensor(name + ".weight", {outputs, inputs});
    const std::vector<float> offsets = weights.tensor(name + ".bias", {outputs});
    weight.insert(weight.end(), rows.begin(), rows.end());
    bias.insert(bias.end(), offsets.begin(), offsets.end());
  }
  outputs *= std::ssize(names);
  return {upload(weight, {outputs, inputs}, dtype_), upload(bias, {outputs}, dtype_)};
}

Norm Model::norm(const Weights& weights, const std::string& name) const {
  return {upload(weights.tensor(name + ".weight", {kHidden}), {kHidden}, st::DType::float32),
          upload(weights.tensor(name + ".bias", {kHidden}), {kHidden}, st::DType::float32)};
}

Layer Model::layer(const Weights& weights, int number) const {
  const std::string name = "encoder.layer." + std::to_string(number) + '.';
  const std::string self = name + "attention.self.";
  return {linear(weights, {self + "query", self + "key", self + "value"}, kHidden, kHidden),
          linear(weights, {name + "attention.output.dense"}, kHidden, kHidden),
          norm(weights, name + "attention.output.LayerNorm"),
          linear(weights, {name + "intermediate.dense"}, kInner, kHidden),
          linear(weights, {name + "output.dense"}, kHidden, kInner),
          norm(weights, name + "output.LayerNorm")};
}

}  // namespace minilm
