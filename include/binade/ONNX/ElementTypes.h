//===- ElementTypes.h - Element and tensor types of ONNX --------*- C++ -*-===//

#ifndef BINADE_ONNX_ELEMENTTYPES_H
#define BINADE_ONNX_ELEMENTTYPES_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// Returns the MLIR type for `type`, a TensorProto::DataType, or null if it is
/// not supported.
Type getElementType(MLIRContext *context, int64_t type);
/// Returns an error message for an element type that is not supported.
std::string describeElementType(int64_t type);

/// The maximum rank of a tensor: more axes than any op of ONNX produces.
inline constexpr size_t kMaxRank = 32;

/// Returns a static tensor type. Fails, with an error, on negative lengths,
/// more than 2^48 elements or more than `kMaxRank` axes.
FailureOr<RankedTensorType> getTensorType(Location loc, ArrayRef<int64_t> shape,
                                          Type element);

} // namespace mlir::binade

#endif // BINADE_ONNX_ELEMENTTYPES_H
