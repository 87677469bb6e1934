// SPDX-License-Identifier: Apache-2.0
// Structured operations as nodes of the frontend; included by frontend.cpp and nowhere else.

/// The results of one node, in order; null where it has none.
using ResultList = std::vector<TensorPointer>;

std::vector<std::int64_t> list_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

class StructuredTranslation {
 public:
  /// `tensors`: those of the graph that there are so far.
  StructuredTranslation(const EngineGraph& graph, const EngineNode& node, fe::graph::Graph& out,
                        std::vector<TensorPointer>& tensors, bool deterministic)
      : graph_(graph), node_(node), out_(out), tensors_(tensors), deterministic_(deterministic) {
    value_.op = node.op;
    value_.attributes = node.attributes;
  }

  ResultList run() {
    switch (node_.op) {
      case Op::attention:
        return attention();
      case Op::attention_float8:
        return attention_float8();
      case Op::attention_blockscaled:
        return attention_blockscaled();
      case Op::attention_backward:
        return attention_backward();
      case Op::rms_norm:
        return rms_norm();
      case Op::rms_norm_backward:
        return rms_norm_backward();
      case Op::layer_norm:
        return layer_norm();
      case Op::layer_norm_backward:
        return layer_norm_backward();
      case Op::batch_norm_training:
        return batch_norm_training();
      case Op::batch_norm_backward:
        return batch_norm_backward();
      case Op::max_pool:
      case Op::avg_pool:
        return pool();
      case Op::quantize:
        return quantize();
      case Op::dequantize:
        return dequantize();
      default:
        return convolution();
    }
  }

 private:
  TensorPointer& input(std::size_t i) { return tensors_[node_.inputs[i]]; }
  TensorPointer& last_input(std::size_t behind) { return tensors_[node_.inputs.rbegin()[behind]]; }
  bool computes(std::size_t result) const {
    return result <= node_.further.size() && node_.further[result - 1] != EngineNode::absent;
  }
  fe::DataType_t compute() const { return compute_type_of(node_.compute); }

  // ---- block scaling ----

  ResultList quantize() {
    const auto& a = std::get<BlockAttributes>(node_.attributes);
    const auto rank = static_cast<std::int64_t>(graph_.tensors[node_.output].dims.size());
    const auto results = out_.block_scale_quantize(input(0), fe::graph::Block_scale_quantize_attributes()
                                                                 .set_block_size(static_cast<int>(a.size))
                                                                 .set_axis(rank - (a.last ? 1 : 2))
                                                                 .set_transpose(false)
                                                                 .set_compute_data_type(compute()));
    return {results[0], results[1]};
  }

  /// Per dimension of the matrix how many elements share a scale. The sign has to be set: frontend 1.32
  /// passes on what happens to be there.
  ResultList dequantize() {
    const auto& a = std::get<BlockAttributes>(node_.attributes);
    const auto size = static_cast<std::int32_t>(a.size);
    const std::vector<std::int32_t> sizes = a.last ? std::vector{1, size} : std::vector{size, 1};
    auto attributes =
        fe::graph::Block_scale_dequantize_attributes().set_block_size(sizes).set_is_negative_scale(false);
    attributes.set_compute_data_type(compute());
    return {out_.block_scale_dequantize(input(0), input(1), std::move(attributes))};
  }

  // ---- attention ----

  TensorPointer& optional(AttentionOperand operand) { return input(index_of(value_, operand)); }

  /// What both directions set alike.
  template <class FrontendAttributes>
  void set_attention(FrontendAttributes& to, std::size_t scale) {
    const auto& attributes = std::get<AttentionAttributes>(node_.attributes);
    to.set_name(name_of(node_.op)).set_attn_scale(input(scale));
    using enum AttentionOperand;
    if (attributes.has(seq_len_q))
      to.set_padding_mask(true).set_seq_len_q(optional(seq_len_q)).set_seq_len_kv(optional(seq_len_kv));
    if (attributes.has(bias)) to.set_bias(optional(bias));
    if (attributes.has(sink)) to.set_sink_token(optional(sink));
    if (attributes.has(seed))
      to.set_dropout(static_cast<float>(attributes.dropout.value), optional(seed), optional(offset));
    if (attributes.causal == Causal::none) return;
    to.set_diagonal_alignment(attributes.causal == Causal::top_left ? fe::DiagonalAlignment_t::TOP_LEFT
                                                                    : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
    if (attributes.window > 0) to.set_diagonal_band_left_bound(static_cast<int>(attributes.window));
  }

  ResultList attention() {
    fe::graph::SDPA_attributes attributes;
    set_attention(attributes, 3);
    attributes.set_generate_stats(computes(1));
    if (std::get<AttentionAttributes>(node_.attributes).has(AttentionOperand::table_k)) {
      const TensorPointer& keys = optional(AttentionOperand::table_k);
      attributes.set_paged_attention_k_table(keys)
          .set_paged_attention_v_table(optional(AttentionOperand::table_v))
          .set_paged_attention_max_seq_len_kv(static_cast<int>(keys->get_dim()[2] * input(1)->get_dim()[2]));
    }
    const auto [out, stats] = out_.sdpa(input(0), input(1), input(2), attributes);
    return {out, stats};
  }

  ResultList attention_float8() {
    fe::graph::SDPA_fp8_attributes attributes;
    set_attention(attributes, 3);
    attributes.set_generate_stats(computes(1));
    const auto [out, stats, amax_s, amax_out] = out_.sdpa_fp8(
        input(0), input(1), input(2), input(4), input(5), input(6), input(7), input(8), input(9), attributes);
    return {out, stats, amax_s, amax_out};
  }

  /// The largest magnitude of the output, which nobody wants here, has to have dims nonetheless.
  ResultList attention_blockscaled() {
    fe::graph::SDPA_fp8_attributes attributes;
    set_attention(attributes, 3);
    attributes.set_generate_stats(computes(1));
    const auto [out, stats, amax_out] =
        out_.sdpa_fp8(input(0), input(1), input(2), input(4), input(5), input(6), attributes);
    amax_out->set_dim({1, 1, 1, 1}).set_stride({1, 1, 1, 1}).set_data_type(fe::DataType_t::FLOAT);
    return {out, stats};
  }

  ResultList attention_backward() {
    fe::graph::SDPA_backward_attributes attributes;
    set_attention(attributes, 6);
    attributes.set_deterministic_algorithm(deterministic_);
    const TensorPointer dbias = computes(3) ? own_result(3) : nullptr;
    const TensorPointer dsink = computes(4) ? own_result(4) : nullptr;
    if (dbias) attributes.set_dbias(dbias);
    if (dsink) attributes.set_dsink_token(dsink);
    const auto [dq, dk, dv] =
        out_.sdpa_backward(input(1), input(2), input(3), input(4), input(0), input(5), attributes);
    return {dq, dk, dv, dbias, dsink};
  }

  /// A result that the frontend is handed as a tensor.
  TensorPointer own_result(std::size_t result) {
    const EngineTensor& t = graph_.tensors[node_.further[result - 1]];
    return out_.tensor(fe::graph::Tensor_attributes().set_dim(t.dims).set_stride(t.strides).set_data_type(
        *type_of(t.dtype)));
  }

  // ---- norms ----

  static fe::NormFwdPhase_t phase(bool statistics) {
    return statistics ? fe::NormFwdPhase_t::TRAINING : fe::NormFwdPhase_t::INFERENCE;
  }

  ResultList rms_norm() {
    auto attributes = fe::graph::Rmsnorm_attributes()
                          .set_forward_phase(phase(computes(1)))
                          .set_epsilon(last_input(0))
                          .set_compute_data_type(compute());
    if (std::get<NormAttributes>(node_.attributes).bias) attributes.set_bias(input(2));
    const auto [y, inv_rms] = out_.rmsnorm(input(0), input(1), attributes);
    return {y, inv_rms};
  }

  ResultList rms_norm_backward() {
    const bool bias = std::get<NormAttributes>(node_.attributes).bias;
    const auto [dx, dscale, dbias] = out_.rmsnorm_backward(
        input(0), input(1), input(2), input(3),
        fe::graph::Rmsnorm_backward_attributes().has_dbias(bias).set_compute_data_type(compute()));
    return {dx, dscale, dbias};
  }

  ResultList layer_norm() {
    const auto [y, mean, inv_std] = out_.layernorm(input(0), input(1), input(2),
                                                   fe::graph::Layernorm_attributes()
                                                       .set_forward_phase(phase(computes(1)))
                                                       .set_epsilon(last_input(0))
                                                       .set_compute_data_type(compute()));
    return {y, mean, inv_std};
  }

  ResultList layer_norm_backward() {
    const auto [dx, dscale, dbias] =
        out_.layernorm_backward(input(0), input(1), input(2),
                                fe::graph::Layernorm_backward_attributes()
                                    .set_saved_mean_and_inv_variance(input(3), input(4))
                                    .set_compute_data_type(compute()));
    return {dx, dscale, dbias};
  }

  ResultList batch_norm_training() {
    const auto results = out_.batchnorm(input(0), input(1), input(2),
                                        fe::graph::Batchnorm_attributes()
                                            .set_previous_running_stats(input(3), input(4), last_input(0))
                                            .set_epsilon(last_input(1))
                                            .set_compute_data_type(compute()));
    return {results.begin(), results.end()};
  }

  ResultList batch_norm_backward() {
    const auto [dx, dscale, dbias] =
        out_.batchnorm_backward(input(0), input(1), input(2),
                                fe::graph::Batchnorm_backward_attributes()
                                    .set_saved_mean_and_inv_variance(input(3), input(4))
                                    .set_compute_data_type(compute()));
    return {dx, dscale, dbias};
  }

  // ---- convolution and pooling ----

  template <class FrontendAttributes>
  FrontendAttributes convolution_attributes() const {
    const auto& attributes = std::get<ConvAttributes>(node_.attributes);
    return FrontendAttributes()
        .set_pre_padding(list_of(attributes.pre_padding))
        .set_post_padding(list_of(attributes.post_padding))
        .set_stride(list_of(attributes.stride))
        .set_dilation(list_of(attributes.dilation))
        .set_compute_data_type(compute());
  }

  ResultList convolution() {
    if (node_.op == Op::conv_backward_data)
      return {
          out_.conv_dgrad(input(0), input(1), convolution_attributes<fe::graph::Conv_dgrad_attributes>())};
    if (node_.op == Op::conv_backward_filter)
      return {
          out_.conv_wgrad(input(0), input(1), convolution_attributes<fe::graph::Conv_wgrad_attributes>())};
    return {out_.conv_fprop(input(0), input(1), convolution_attributes<fe::graph::Conv_fprop_attributes>())};
  }

  ResultList pool() {
    const auto& attributes = std::get<PoolAttributes>(node_.attributes);
    using Mode = fe::ResampleMode_t;
    const bool max = node_.op == Op::max_pool;
    const Mode average =
        attributes.include_padding ? Mode::AVGPOOL_INCLUDE_PADDING : Mode::AVGPOOL_EXCLUDE_PADDING;
    const auto [y, indices] = out_.resample(
        input(0), fe::graph::Resample_attributes()
                      .set_resampling_mode(max ? Mode::MAXPOOL : average)
                      .set_padding_mode(max ? fe::PaddingMode_t::NEG_INF_PAD : fe::PaddingMode_t::ZERO_PAD)
                      .set_window(list_of(attributes.window))
                      .set_stride(list_of(attributes.stride))
                      .set_pre_padding(list_of(attributes.pre_padding))
                      .set_post_padding(list_of(attributes.post_padding))
                      .set_generate_index(false)
                      .set_compute_data_type(compute()));
    return {y};
  }

  const EngineGraph& graph_;
  const EngineNode& node_;
  fe::graph::Graph& out_;
  std::vector<TensorPointer>& tensors_;
  bool deterministic_;
  Value value_;  // as operands are asked for
};
