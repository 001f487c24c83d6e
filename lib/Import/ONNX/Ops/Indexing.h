//===- Indexing.h - Elements by index ---------------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_INDEXING_H
#define BINADE_LIB_IMPORT_ONNX_OPS_INDEXING_H

#include "../Node.h"

namespace mlir::binade::importer {

/// For each element of a tensor of the shape of `type`, its place along `axis`:
/// integers of 64 bits.
Value buildPlaces(ImplicitLocOpBuilder &b, RankedTensorType type, int64_t axis);

/// `x` times a number.
Value times(ImplicitLocOpBuilder &b, Value x, int64_t factor);

/// Fails unless input `index` holds integers that count elements.
LogicalResult requireIndices(Node &node, unsigned index);

/// Input `index` as integers of 64 bits in [0, length); a negative one counts
/// from the end, and one outside of [-length, length) is an error at run time.
Value getPlaces(Node &node, unsigned index, int64_t length);

/// The row-major number, in a tensor of `shape`, of the element that has the
/// index of each of `places` but for `axis`, where it is the place.
Value numberElements(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                     Value places, int64_t axis);

/// The elements of `x` at `places` along `axis`, as GatherElements has them.
/// No place is negative.
Value gatherAlong(ImplicitLocOpBuilder &b, Value x, Value places, int64_t axis);

/// `data` with `updates` at `places` along `axis`, in which alone they differ
/// in shape; the last of several for one place wins. No place is negative.
FailureOr<Value> replaceAlong(Node &node, Value data, Value places,
                              Value updates, int64_t axis);

/// For tuples of indices along the last axis of input `index`, the number of
/// the row of the first `counted` axes that each names, behind `batch` axes
/// that both share.
Value numberRows(Node &node, unsigned index, ArrayRef<int64_t> counted,
                 int64_t batch);

/// Whether an axis of `length` can be cut into parts of `sizes`.
bool isSplit(ArrayRef<int64_t> sizes, int64_t length);

/// The elements of `x` at `places` along `axis`, in that order: a slice where
/// they stand at equal distances.
Value takeAlong(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> places,
                int64_t axis);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_INDEXING_H
