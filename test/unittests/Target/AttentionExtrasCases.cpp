//===- AttentionExtrasCases.cpp - Cases of attention ----------------------===//
//
// Masks, biases, soft caps and dropout, with shapes that tiles do not divide.
//
//===----------------------------------------------------------------------===//

#include "AttentionExtrasCases.h"
#include <array>
#include <cfloat>
#include <functional>

using namespace mlir::binade;
using ::binade::DType;
using Sizes = std::vector<int64_t>;

static ExtrasCase build(std::string why, Sizes batch,
                        std::array<int64_t, 4> sizes,
                        const std::function<void(ExtrasCase &)> &change) {
  auto [queries, keys, depth, width] = sizes;
  ExtrasCase c{std::move(why), std::move(batch), queries, keys, depth, width};
  change(c);
  return c;
}

std::vector<ExtrasCase> mlir::binade::getDropoutCases() {
  return {
      build("dropout", {2}, {64, 64, 16, 16},
            [](ExtrasCase &c) { c.ratio = 0.5; }),
      build("causal with a rest", {2, 2}, {70, 70, 16, 32},
            [](ExtrasCase &c) {
              c.causal = true;
              c.ratio = 0.1;
            }),
      build("shared keys", {2, 3}, {33, 75, 32, 16},
            [](ExtrasCase &c) {
              c.grouped = true;
              c.ratio = 0.25;
            }),
      build("everything", {}, {20, 40, 16, 16},
            [](ExtrasCase &c) { c.ratio = 1; }),
      build("large scores", {}, {150, 300, 16, 16},
            [](ExtrasCase &c) {
              c.ratio = 0.3;
              c.scale = 4;
            }),
  };
}

std::vector<ExtrasCase> mlir::binade::getMaskCases() {
  auto zero = [](ExtrasCase &c) { c.zeroHidden = true; };
  auto mask = [&](std::string why, Sizes batch, std::array<int64_t, 4> sizes,
                  Sizes shape) {
    ExtrasCase c = build(std::move(why), std::move(batch), sizes, zero);
    c.mask = std::move(shape);
    return c;
  };
  std::vector<ExtrasCase> all = {
      mask("padding", {2, 2}, {70, 75, 16, 32}, {2, 1, 1, 75}),
      mask("of queries", {2, 2}, {70, 80, 16, 16}, {2, 1, 70, 80}),
      mask("of all", {1, 3}, {40, 33, 32, 16}, {1, 3, 40, 33}),
      mask("shared keys", {2, 3}, {33, 75, 16, 16}, {2, 3, 33, 1}),
      mask("causal", {2}, {150, 150, 64, 64}, {2, 1, 150}),
      mask("wide heads", {}, {70, 70, 128, 112}, {70, 70}),
      mask("positive fill", {2}, {70, 75, 16, 16}, {2, 70, 75}),
      mask("large fill, causal", {2}, {70, 70, 16, 16}, {2, 1, 70}),
  };
  all[0].ratio = 0.2;
  all[1].zeroHidden = false;
  all[1].zeroNan = true;
  all[2].fill = -FLT_MAX;
  all[2].zeroHidden = false;
  all[3].grouped = true;
  all[4].causal = true;
  all[4].ratio = 0.5;
  all[5].fill = -3;
  all[6].fill = 2;
  all[7].fill = 100;
  all[7].causal = true;
  return all;
}

static ExtrasCase bias(std::string why, Sizes batch,
                       std::array<int64_t, 4> sizes,
                       std::vector<Sizes> biases) {
  return build(std::move(why), std::move(batch), sizes,
               [&](ExtrasCase &c) { c.biases = std::move(biases); });
}

std::vector<ExtrasCase> mlir::binade::getBiasCases() {
  std::vector<ExtrasCase> all = {
      bias("per head", {2, 2}, {70, 80, 16, 32}, {{1, 2, 70, 80}}),
      bias("and padding", {2, 2}, {66, 75, 16, 16},
           {{1, 2, 66, 75}, {2, 1, 1, 75}}),
      bias("hides a query", {2}, {70, 70, 32, 16}, {{1, 70, 70}}),
      bias("shared keys", {2, 3}, {33, 75, 16, 16}, {{1, 3, 33, 75}}),
      bias("in 16 bits, causal", {2}, {130, 130, 64, 64}, {{2, 130, 130}}),
      bias("soft cap", {2}, {70, 90, 16, 16}, {}),
      bias("of everything", {2, 2}, {70, 70, 32, 32}, {{1, 2, 70, 70}}),
  };
  all[2].hugeBias = -FLT_MAX;
  all[3].grouped = true;
  all[4].bias = DType::BF16;
  all[4].causal = true;
  all[5].softcap = 2;
  all[5].scale = 1;
  all[6].softcap = 1.5;
  all[6].mask = {2, 1, 1, 70};
  all[6].fill = -1e9;
  all[6].ratio = 0.3;
  all[6].causal = true;
  return all;
}

std::vector<ExtrasCase> mlir::binade::getBiasGradientCases() {
  std::vector<ExtrasCase> all = {
      bias("of samples", {2, 2}, {70, 80, 16, 32}, {{1, 2, 70, 80}}),
      bias("of samples, of heads and queries", {2, 2}, {66, 75, 16, 16},
           {{1, 2, 66, 75}, {2, 1, 1, 75}}),
      bias("of nothing", {}, {70, 70, 128, 112}, {{70, 70}}),
      bias("of heads and keys", {2, 2}, {70, 75, 16, 16}, {{2, 1, 70, 1}}),
      bias("of all", {2}, {70, 150, 16, 16}, {{1, 1, 1}}),
      bias("of samples with shared keys", {2, 3}, {33, 75, 16, 16},
           {{1, 3, 33, 75}, {2, 1, 1, 75}}),
      bias("of other axes", {2, 2, 3}, {20, 40, 16, 16}, {{1, 2, 1, 20, 40}}),
      bias("causal, in 16 bits", {2}, {130, 130, 64, 64}, {{1, 130, 130}}),
      bias("causal, of queries or keys", {2}, {130, 130, 16, 16},
           {{1, 1, 130}, {1, 130, 1}}),
      bias("causal, wide heads", {}, {130, 130, 128, 16},
           {{130, 130}, {1, 130}, {130, 1}, {1, 1}}),
      bias("with all", {2, 2}, {70, 70, 32, 32}, {{1, 2, 70, 70}}),
      bias("hides a query", {2}, {70, 70, 32, 16}, {{1, 70, 70}}),
      bias("masked", {2, 2}, {70, 75, 16, 32}, {{1, 1, 70, 75}}),
      bias("without a scale", {2}, {40, 40, 16, 16}, {{1, 40, 40}}),
  };
  for (ExtrasCase &c : all)
    c.needsBiasGradients = true;
  all[5].grouped = true;
  all[5].ratio = 0.25;
  for (size_t i : {7, 8, 9})
    all[i].causal = true;
  all[7].bias = DType::BF16;
  all[8].ratio = 0.5;
  all[10].softcap = 1.5;
  all[10].mask = {2, 1, 1, 70};
  all[10].fill = -1e9;
  all[10].ratio = 0.3;
  all[10].causal = true;
  all[11].hugeBias = -FLT_MAX;
  all[12].mask = {2, 1, 70, 75};
  all[12].zeroHidden = true;
  all[13].scale = 0;
  return all;
}
