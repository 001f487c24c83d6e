//===- LibraryCalls.h - contractions and convolutions as records *- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_LIBRARYCALLS_H
#define BINADE_LIB_KERNELS_LIBRARYCALLS_H

#include "binade/IR/Binade.h"
#include "binade/Plan/Plan.h"
#include <functional>

namespace mlir::binade {

/// The record of a library op; `view` gives the place of a value, without
/// strides. Fails, with a diagnostic, for an op that no record describes.
FailureOr<::binade::plan::Record>
buildLibraryCall(Operation *op,
                 const std::function<::binade::plan::View(Value)> &view);

/// Row-major strides of `shape`, in elements.
std::vector<int64_t> getStrides(ArrayRef<int64_t> shape);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_LIBRARYCALLS_H
