//===- Repetition.h - Repeated parts of a sequence --------------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_ASSIGN_REPETITION_H
#define BINADE_LIB_PRECISION_ASSIGN_REPETITION_H

#include "llvm/ADT/ArrayRef.h"

namespace mlir::binade {

/// `count` equal parts of `period` elements, one after the other.
struct Repetition {
  size_t first = 0, period = 0, count = 0;
};

/// Returns the repetition that covers most of `elements`, with the shortest
/// period, and the first of equal ones. None of its counts is 1; no repetition
/// has count 0.
Repetition findRepetition(llvm::ArrayRef<unsigned> elements);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_ASSIGN_REPETITION_H
