//===- Taps.h - Samples between the elements of an image --------*- C++ -*-===//
//
// A sample is a sum of elements near its place, each a row of the image's
// pixels times a weight; gradients follow for the image and for the places.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_TAPS_H
#define BINADE_LIB_IMPORT_ONNX_OPS_TAPS_H

#include "../Node.h"

namespace mlir::binade::importer {

/// One of the elements that a sample is made of: its place along an axis, or
/// its row.
struct Tap {
  Value place;  ///< i64, in what there is.
  Value weight; ///< Null for 1.
};

/// The element at `at`, whole numbers, of an axis of `length`: the nearest one
/// that there is. What lies outside counts nothing if `isZeroOutside`.
Tap makeTap(ImplicitLocOpBuilder &b, Value at, Value weight, int64_t length,
            bool isZeroOutside);

/// The two neighbours of each coordinate, by distance.
SmallVector<Tap> findLinearTaps(ImplicitLocOpBuilder &b, Value coordinate,
                                int64_t length, bool isZeroOutside);

/// Each of `outer` with each of `inner`, which lie `stride` rows apart.
SmallVector<Tap> combineTaps(ImplicitLocOpBuilder &b, ArrayRef<Tap> outer,
                             ArrayRef<Tap> inner, int64_t stride);

/// The rows of `table` that `taps` are, each times its weight.
SmallVector<Value> gatherTaps(ImplicitLocOpBuilder &b, Value table,
                              ArrayRef<Tap> taps);

/// Their sum.
Value addTaps(ImplicitLocOpBuilder &b, Value table, ArrayRef<Tap> taps);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_TAPS_H
