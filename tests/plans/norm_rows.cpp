// SPDX-License-Identifier: Apache-2.0
// Rows with normalisations: dtypes, statistics, gradients, what may follow, orders in memory.
#include "plans/table.hpp"

namespace plans {
namespace {

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32;

Group rms(DType dtype, DType parameter) {
  using stiletto::rms_norm;
  auto plain = [](const Arrays& a) { return rms_norm(a[0], a[1]); };
  auto biased = [](const Arrays& a) { return rms_norm(a[0], a[1], {.bias = a[2]}); };
  auto relu = [](const Arrays& a) { return stiletto::relu(rms_norm(a[0], a[1])); };
  auto silu = [](const Arrays& a) { return stiletto::silu(rms_norm(a[0], a[1])); };
  auto residual = [](const Arrays& a) { return rms_norm(a[0], a[1]) + a[2]; };
  auto scaled = [](const Arrays& a) { return stiletto::cast(rms_norm(a[0], a[1]) * 0.5f, a[0].dtype()); };
  auto widened = [](const Arrays& a) { return rms_norm(a[0], a[1]) * 0.5f; };
  auto into = [](const Arrays& a) { stiletto::rms_norm_into(a[2], a[0], a[1]); };
  auto before = [](const Arrays& a) { return rms_norm(stiletto::relu(a[0]), a[1]); };
  auto total = [](const Arrays& a) { return stiletto::sum(rms_norm(a[0], a[1]), -1); };
  const std::string wider = parameter == dtype ? "" : "cast scale to";
  const Operand loose{{32, 64}, dtype, {128, 1}};
  auto stats = [](const Arrays& a) -> Arrays {
    const auto r = stiletto::rms_norm_with_stats(a[0], a[1]);
    return {r.y, r.inv_rms};
  };
  auto biased_stats = [](const Arrays& a) -> Arrays {
    const auto r = stiletto::rms_norm_with_stats(a[0], a[1], {.bias = a[2]});
    return {r.y, r.inv_rms};
  };
  auto backward = [](const Arrays& a) -> Arrays {
    const auto g = stiletto::rms_norm_backward(a[0], a[1], a[2], a[3]);
    return {g.dx, g.dscale};
  };
  auto biased_backward = [](const Arrays& a) -> Arrays {
    const auto g = stiletto::rms_norm_backward(a[0], a[1], a[2], a[3], true);
    return {g.dx, g.dscale, g.dbias};
  };
  const Operand x{{32, 64}, dtype}, s{{64}, parameter}, inv{{32, 1}, f32};
  const Operand wide{{512, 4096}, dtype}, wide_s{{4096}, parameter};
  const Operand x3{{4, 8, 64}, dtype}, gaps{{4, 8, 64}, dtype, {1024, 64, 1}};
  const Operand two{{4, 8, 16, 4}, dtype}, two_s{{16, 4}, parameter};
  return {
      std::string("rms_norm_") + stiletto::to_string(dtype) + "_" + stiletto::to_string(parameter),
      {{"plain", plain, {x, s}},
       {"wide", plain, {wide, wide_s}},
       {"three axes", plain, {x3, s}},
       {"a gap between batches", plain, {gaps, s}, "gaps between axes that are one to cuDNN"},
       {"a gap between rows", plain, {loose, s}, "has gaps between its rows"},
       {"one gap between rows", into, {loose, s, loose}, "has gaps between its rows"},
       {"a gap between rows, relu", relu, {loose, s}, wider.empty() ? "has gaps between its rows" : wider},
       {"over two axes", plain, {two, two_s}},
       {"odd width", plain, {{{32, 77}, dtype}, {{77}, parameter}}},
       {"one row", plain, {{{64}, dtype}, s}},
       {"bias", biased, {x, s, s}},
       {"relu", relu, {x, s}, wider},
       {"silu", silu, {x, s}, wider},
       {"residual", residual, {x, s, x}, wider},
       {"times a number", scaled, {x, s}, wider},
       {"times a number, float32",
        widened,
        {x, s},
        dtype == f32    ? ""
        : wider.empty() ? "wider than cuDNN"
                        : wider},
       {"a computed operand", before, {x, s}, "x of rms_norm is computed"},
       {"a sum of it", total, {x, s}, "sum beside rms_norm"},
       {"stats", stats, {x, s}},
       {"bias, stats", biased_stats, {x, s, s}},
       {"stats, three axes", stats, {x3, s}},
       {"backward", backward, {x, x, s, inv}},
       {"backward, wide", backward, {wide, wide, wide_s, {{512, 1}, f32}}},
       {"backward with bias", biased_backward, {x, x, s, inv}}}};
}

Group layer(DType dtype, DType parameter) {
  using stiletto::layer_norm;
  auto plain = [](const Arrays& a) { return layer_norm(a[0], a[1], a[2]); };
  auto gelu = [](const Arrays& a) { return stiletto::gelu(layer_norm(a[0], a[1], a[2])); };
  auto residual = [](const Arrays& a) { return layer_norm(a[0], a[1], a[2]) + a[3]; };
  auto stats = [](const Arrays& a) -> Arrays {
    const auto r = stiletto::layer_norm_with_stats(a[0], a[1], a[2]);
    return {r.y, r.mean, r.inv_std};
  };
  auto backward = [](const Arrays& a) -> Arrays {
    const auto g = stiletto::layer_norm_backward(a[0], a[1], a[2], a[3], a[4]);
    return {g.dx, g.dscale, g.dbias};
  };
  auto mean_only = [](const Arrays& a) -> Arrays {
    const auto r = stiletto::layer_norm_with_stats(a[0], a[1], a[2]);
    return {r.y, r.mean};
  };
  const std::string wider = parameter == dtype ? "" : "cast scale to";
  const Operand x{{32, 64}, dtype}, s{{64}, parameter}, number{{32, 1}, f32};
  const Operand wide{{512, 4096}, dtype}, wide_s{{4096}, parameter}, wide_number{{512, 1}, f32};
  return {std::string("layer_norm_") + stiletto::to_string(dtype) + "_" + stiletto::to_string(parameter),
          {{"plain", plain, {x, s, s}},
           {"wide", plain, {wide, wide_s, wide_s}},
           {"three axes", plain, {{{4, 8, 64}, dtype}, s, s}},
           {"odd width", plain, {{{32, 77}, dtype}, {{77}, parameter}, {{77}, parameter}}},
           {"gelu", gelu, {x, s, s}, wider},
           {"residual", residual, {x, s, s, x}, wider},
           {"mean alone", mean_only, {x, s, s}, "only one of mean and inv_std"},
           {"stats", stats, {x, s, s}},
           {"stats, wide", stats, {wide, wide_s, wide_s}},
           {"backward", backward, {x, x, s, number, number}},
           {"backward, wide", backward, {wide, wide, wide_s, wide_number, wide_number}}}};
}

Group batch(DType dtype) {
  auto training = [](const Arrays& a) -> Arrays {
    const auto r = stiletto::batch_norm_training(a[0], a[1], a[2], a[3], a[4]);
    return {r.y, r.mean, r.inv_std, r.running_mean, r.running_variance};
  };
  auto backward = [](const Arrays& a) -> Arrays {
    const auto g = stiletto::batch_norm_backward(a[0], a[1], a[2], a[3], a[4]);
    return {g.dx, g.dscale, g.dbias};
  };
  auto alone = [](const Arrays& a) { return stiletto::batch_norm_training(a[0], a[1], a[2], a[3], a[4]).y; };
  const std::string channels = "tunable_params.c";
  const Operand first{{4, 16, 8, 8}, dtype}, last{{4, 16, 8, 8}, dtype, {1024, 1, 128, 16}}, c{{16}, f32};
  const Operand line{{4, 16, 32}, dtype, {512, 1, 16}}, odd{{4, 7, 5, 3}, dtype, {105, 1, 21, 7}},
      odd_c{{7}, f32};
  return {std::string("batch_norm_") + stiletto::to_string(dtype),
          {{"training, channels first", training, {first, c, c, c, c}},
           {"training, channels last", training, {last, c, c, c, c}},
           {"training, one spatial axis", training, {line, c, c, c, c}},
           {"training, odd channels", training, {odd, odd_c, odd_c, odd_c, odd_c}, channels},
           {"backward, channels first", backward, {first, first, c, c, c}},
           {"backward, channels last", backward, {last, last, c, c, c}},
           {"backward, odd channels", backward, {odd, odd, odd_c, odd_c, odd_c}, channels},
           {"y alone", alone, {last, c, c, c, c}, "mean of batch_norm_training is not used"}}};
}

}  // namespace

std::vector<Group> norm_groups() {
  std::vector<Group> result;
  for (const DType dtype : {f16, bf16, f32}) {
    result.push_back(rms(dtype, dtype));
    result.push_back(layer(dtype, dtype));
    if (dtype != f32) result.push_back(rms(dtype, f32));
    if (dtype != f32) result.push_back(layer(dtype, f32));
    result.push_back(batch(dtype));
  }
  return result;
}

}  // namespace plans
