// SPDX-License-Identifier: Apache-2.0
// The encoder of sentences all-MiniLM-L6-v2: BERT (Devlin et al. 2018) with six layers, whose outputs are
// averaged over the tokens and scaled to length 1 (Reimers & Gurevych 2019).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <stiletto/stiletto.hpp>

#include "batches.hpp"
#include "weights.hpp"

namespace minilm {

inline constexpr std::int64_t kHidden = 384, kHeads = 12, kInner = 1536, kLayers = 6;
inline constexpr std::int64_t kVocabulary = 30522, kPositions = 512;

struct Linear {
  stiletto::Array weight, bias;  // (outputs, inputs), (outputs)
};
struct Norm {
  stiletto::Array scale, bias;
};
struct Layer {
  Linear query_key_value, attention_output;
  Norm attention_norm;
  Linear inner, output;
  Norm output_norm;
};

class Model {
 public:
  // dtype: of the weights and of what passes between the steps.
  Model(const Weights&, stiletto::Device, stiletto::DType dtype);

  // (rows, kHidden), float32, on the device: the sentence of each row.
  stiletto::Array operator()(const Batch&) const;

 private:
  stiletto::Array embeddings(const Batch&) const;
  stiletto::Array attention(const Layer&, const stiletto::Array& x, const Batch&,
                            const stiletto::Array& lengths) const;
  stiletto::Array pooled(const stiletto::Array& x, const Batch&) const;

  stiletto::Array upload(const std::vector<float>&, stiletto::Shape, stiletto::DType) const;
  Linear linear(const Weights&, const std::vector<std::string>& names, std::int64_t outputs,
                std::int64_t inputs) const;
  Norm norm(const Weights&, const std::string& name) const;
  Layer layer(const Weights&, int number) const;

  stiletto::Device device_;
  stiletto::DType dtype_;
  std::vector<float> words_;  // stays on the host: engines of GPUs look nothing up
  stiletto::Array positions_, type_;
  Norm embedding_norm_;
  std::vector<Layer> layers_;
  stiletto::Array unit_;
};

}  // namespace minilm
