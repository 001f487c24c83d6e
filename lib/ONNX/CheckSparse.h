//===- CheckSparse.h - Checks that a sparse tensor is valid -----*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_CHECKSPARSE_H
#define BINADE_LIB_ONNX_CHECKSPARSE_H

#include "binade/ONNX/Tensors.h"

namespace onnx {
class SparseTensorProto;
} // namespace onnx

namespace mlir::binade {

/// Fails unless the tensor has an index in its shape for each of its values,
/// and the indices are in ascending order.
LogicalResult checkSparse(Location loc, const ::onnx::SparseTensorProto &tensor,
                          TensorReader &tensors);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_CHECKSPARSE_H
