//===- Limits.h - How large a tensor may be ---------------------*- C++ -*-===//

#ifndef BINADE_IR_LIMITS_H
#define BINADE_IR_LIMITS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CheckedArithmetic.h"

namespace mlir::binade {

/// Tensors with more elements are refused where files are read: what comes
/// later multiplies dimensions without asking. MLIR's types take any.
inline constexpr int64_t kMaxElements = int64_t(1) << 48;

/// Whether the product of `shape` is at most `kMaxElements`; axes without
/// elements hide no others, as parts of a shape are multiplied, too.
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
