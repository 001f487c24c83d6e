//===- QuantizationNoise.h - Noise of quantized operands --------*- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_QUANTIZATIONNOISE_H
#define BINADE_LIB_MONITOR_QUANTIZATIONNOISE_H

#include "ValueStatistics.h"

namespace mlir::binade {

/// Builds the estimated norm of the noise in the watched value, a product of
/// quantized operands. Returns null for other values.
///
/// If the rounding errors of operands A and B are independent, with mean 0, an
/// element of the product, a sum of k terms, has a noise whose variance is a
/// sum of k terms, too. With a and b, the sums of squares of all elements of A
/// and B, and e and f, those of their rounding errors, the sum of all variances
/// is (e b + a f + e f) / k, if errors and elements do not depend on each
/// other.
Value buildQuantizationNoise(ValueStatistics &s);

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_QUANTIZATIONNOISE_H
