//===- Window.h - Windows of convolutions and pools -------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_WINDOW_H
#define BINADE_LIB_IMPORT_ONNX_OPS_WINDOW_H

#include "../Node.h"

namespace mlir::binade::importer {

/// The geometry of windows, per spatial axis.
struct Window {
  SmallVector<int64_t> kernel, strides, dilations, low, high, output;

  int64_t getExtent(size_t axis) const {
    return (kernel[axis] - 1) * dilations[axis] + 1;
  }
};

/// Reads the window of a convolution or pool of input `index`, [N, C,
/// spatial...].
FailureOr<Window> readWindow(Node &node, ArrayRef<int64_t> kernel,
                             unsigned index = 0);

/// Reads the window of a convolution of input `index` with input `weight`.
/// Checks shapes, but not element types.
FailureOr<Window> readConvolution(Node &node, unsigned index, unsigned weight,
                                  int64_t groups);

/// Reads kernel, strides, dilations and pads of a window with `rank` spatial
/// axes. Does not compute automatic padding or output lengths.
FailureOr<Window> readGeometry(Node &node, ArrayRef<int64_t> kernel,
                               size_t rank);

/// Returns attribute `auto_pad`; fails on an unknown value.
FailureOr<StringRef> readAutomaticPadding(Node &node);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_WINDOW_H
