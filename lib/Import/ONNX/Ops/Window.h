//===- Window.h - Where the windows of an image lie -------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_WINDOW_H
#define BINADE_LIB_IMPORT_ONNX_OPS_WINDOW_H

#include "../Node.h"

namespace mlir::binade::importer {

/// Where a window lies, per spatial axis.
struct Window {
  SmallVector<int64_t> kernel, strides, dilations, low, high, output;

  int64_t getExtent(size_t axis) const {
    return (kernel[axis] - 1) * dilations[axis] + 1;
  }
};

/// Reads what Conv and the pools share; input `index` is [N, C, spatial...].
FailureOr<Window> readWindow(Node &node, ArrayRef<int64_t> kernel,
                             unsigned index = 0);

/// The window of a convolution of input `index` with input `weight`; what their
/// elements are is for others to check.
FailureOr<Window> readConvolution(Node &node, unsigned index, unsigned weight,
                                  int64_t groups);

/// The lists of a window for an input of `rank` spatial axes, checked, without
/// padding and output.
FailureOr<Window> readGeometry(Node &node, ArrayRef<int64_t> kernel,
                               size_t rank);

/// The attribute `auto_pad`, or failure for a word that it does not know.
FailureOr<StringRef> readAutomaticPadding(Node &node);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_WINDOW_H
