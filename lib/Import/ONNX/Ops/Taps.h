//===- Taps.h - Interpolation between elements ------------------*- C++ -*-===//
//
// A sample is a weighted sum of elements near its coordinates. Elements are
// gathered as rows of the image's pixels, so that autodiff can derive the
// gradients of the image and of the coordinates.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_TAPS_H
#define BINADE_LIB_IMPORT_ONNX_OPS_TAPS_H

#include "../Node.h"

namespace mlir::binade::importer {

/// An element that a sample reads: its position along an axis or its row.
struct Tap {
  Value place;  ///< i64, within the axis or table.
  Value weight; ///< Null for 1.
};

/// Returns the tap of the element at `at`, whole numbers, clamped to an axis of
/// `length`. If `isZeroOutside`, the weight outside the axis is 0.
Tap makeTap(ImplicitLocOpBuilder &b, Value at, Value weight, int64_t length,
            bool isZeroOutside);

/// Returns the two neighbors of each coordinate with linear weights.
SmallVector<Tap> findLinearTaps(ImplicitLocOpBuilder &b, Value coordinate,
                                int64_t length, bool isZeroOutside);

/// Combines each of `outer` with each of `inner`: rows are outer + inner *
/// stride, and weights are multiplied.
SmallVector<Tap> combineTaps(ImplicitLocOpBuilder &b, ArrayRef<Tap> outer,
                             ArrayRef<Tap> inner, int64_t stride);

/// Gathers the rows of `table` at `taps`, each times its weight.
SmallVector<Value> gatherTaps(ImplicitLocOpBuilder &b, Value table,
                              ArrayRef<Tap> taps);

/// Returns the sum of the rows of `table` at `taps`, each times its weight.
Value addTaps(ImplicitLocOpBuilder &b, Value table, ArrayRef<Tap> taps);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_TAPS_H
