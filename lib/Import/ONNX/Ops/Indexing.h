//===- Indexing.h - Elements by index ---------------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_INDEXING_H
#define BINADE_LIB_IMPORT_ONNX_OPS_INDEXING_H

#include "../Node.h"

namespace mlir::binade::importer {

/// Builds the position of each element along `axis`, i64, in the shape of
/// `type`.
Value buildPlaces(ImplicitLocOpBuilder &b, RankedTensorType type, int64_t axis);

/// Builds `x` * `factor`.
Value times(ImplicitLocOpBuilder &b, Value x, int64_t factor);

/// Fails unless input `index` has elements of i32 or i64.
LogicalResult requireIndices(Node &node, unsigned index);

/// Returns input `index` as i64 in [0, length). Negative indices count from the
/// end; indices outside [-length, length) are an error at run time.
Value getPlaces(Node &node, unsigned index, int64_t length);

/// Builds the row-major offset, in a tensor of `shape`, of the element that
/// each of `places` selects: its index is that of the place, except along
/// `axis`, where it is the place's value.
Value numberElements(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                     Value places, int64_t axis);

/// Gathers the elements of `x` at `places` along `axis`, as GatherElements.
/// Places are not negative.
Value gatherAlong(ImplicitLocOpBuilder &b, Value x, Value places, int64_t axis);

/// Returns `data` with `updates` at `places` along `axis`, the only axis along
/// which their shapes differ. The last of several updates of one place wins.
/// Places are not negative.
FailureOr<Value> replaceAlong(Node &node, Value data, Value places,
                              Value updates, int64_t axis);

/// Builds the number of the row that each tuple of indices, along the last axis
/// of input `index`, selects. Rows are numbered by axes of lengths `counted`;
/// the first `batch` of these are batch axes shared by data and indices.
Value numberRows(Node &node, unsigned index, ArrayRef<int64_t> counted,
                 int64_t batch);

/// Whether an axis of `length` can be split into parts of `sizes`.
bool isSplit(ArrayRef<int64_t> sizes, int64_t length);

/// Returns the entries of `x` at `places` along `axis`, in that order: a slice
/// if the places ascend by equal steps, otherwise a gather.
Value takeAlong(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> places,
                int64_t axis);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_INDEXING_H
