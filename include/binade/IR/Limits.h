//===- Limits.h - Maximum size of tensors -----------------------*- C++ -*-===//

#ifndef BINADE_IR_LIMITS_H
#define BINADE_IR_LIMITS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CheckedArithmetic.h"

namespace mlir::binade {

/// The maximum number of elements of a tensor. Readers of files reject larger
/// ones, because later phases multiply dimensions without checks for overflow.
/// MLIR's types have no limit.
inline constexpr int64_t kMaxElements = int64_t(1) << 48;

/// Whether the product of `shape` is at most `kMaxElements`. Axes of length 0
/// count as 1, because products of parts of the shape must fit, too.
inline bool isCountable(llvm::ArrayRef<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape) {
    std::optional<int64_t> product =
        llvm::checkedMul(elements, std::max(size, int64_t(1)));
    if (!product || *product > kMaxElements)
      return false;
    elements = *product;
  }
  return true;
}

} // namespace mlir::binade

#endif // BINADE_IR_LIMITS_H
