//===- AttentionExtrasCases.h - Cases of attention --------------*- C++ -*-===//

#ifndef BINADE_TEST_UNITTESTS_TARGET_ATTENTIONEXTRASCASES_H
#define BINADE_TEST_UNITTESTS_TARGET_ATTENTIONEXTRASCASES_H

#include "binade/Container/DType.h"
#include <cmath>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace mlir::binade {

struct ExtrasCase {
  std::string why;
  std::vector<int64_t> batch;
  int64_t queries, keys, depth, width;
  bool causal = false, grouped = false;
  double ratio = 0; ///< 0: no dropout.
  /// Shapes of mask and biases: axes of size 1 are broadcast.
  std::vector<int64_t> mask = {};
  std::vector<std::vector<int64_t>> biases = {};
  double softcap = 0, fill = -INFINITY, scale = 0.3;
  bool zeroHidden = false, zeroNan = false;
  /// The value of the bias for all keys of the second query.
  std::optional<double> hugeBias = std::nullopt;
  ::binade::DType bias = ::binade::DType::F32;
  bool needsBiasGradients = false;
};

inline std::ostream &operator<<(std::ostream &stream, const ExtrasCase &c) {
  return stream << c.why;
}

std::vector<ExtrasCase> getDropoutCases();
std::vector<ExtrasCase> getMaskCases();
std::vector<ExtrasCase> getBiasCases();
std::vector<ExtrasCase> getBiasGradientCases();

} // namespace mlir::binade

#endif // BINADE_TEST_UNITTESTS_TARGET_ATTENTIONEXTRASCASES_H
