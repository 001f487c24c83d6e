//===- ElementTypes.h - Types of tensors ------------------------*- C++ -*-===//

#ifndef BINADE_ONNX_ELEMENTTYPES_H
#define BINADE_ONNX_ELEMENTTYPES_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// The element type that ONNX number `type` stands for, or null.
Type getElementType(MLIRContext *context, int64_t type);
/// What to say when there is none.
std::string describeElementType(int64_t type);

/// More axes than any op of ONNX makes.
inline constexpr size_t kMaxRank = 32;

/// A static tensor type; fails on negative or overflowing dimensions, and on
/// too many.
FailureOr<RankedTensorType> getTensorType(Location loc, ArrayRef<int64_t> shape,
                                          Type element);

} // namespace mlir::binade

#endif // BINADE_ONNX_ELEMENTTYPES_H
