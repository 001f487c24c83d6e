//===- QuantizationNoise.h - Noise of quantized operands --------*- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_QUANTIZATIONNOISE_H
#define BINADE_LIB_MONITOR_QUANTIZATIONNOISE_H

#include "ValueStatistics.h"

namespace mlir::binade {

/// Builds ops that estimate the norm of the error that the quantization of the
/// operands causes in the watched value, the result of a contraction. Returns
/// null for other values.
///
/// Let the contraction multiply A and B and sum over k elements. Let a and b be
/// the sums of squares of all elements of A and B, and e and f those of their
/// rounding errors. If rounding errors have mean 0 and are independent of each
/// other and of the elements, the expected sum of squares of the error of the
/// result is (e b + a f + e f) / k. With batch axes, that is too large by the
/// number of batches.
Value buildQuantizationNoise(ValueStatistics &s);

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_QUANTIZATIONNOISE_H
