//===- CheckSparse.h - Whether a sparse tensor is one -----------*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_CHECKSPARSE_H
#define BINADE_LIB_ONNX_CHECKSPARSE_H

#include "binade/ONNX/Tensors.h"

namespace onnx {
class SparseTensorProto;
} // namespace onnx

namespace mlir::binade {

/// Fails unless the tensor has an index within its shape for each of its
/// values, in ascending order.
LogicalResult checkSparse(Location loc, const ::onnx::SparseTensorProto &tensor,
                          TensorReader &tensors);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_CHECKSPARSE_H
