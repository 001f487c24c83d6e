//===- Repetition.cpp - Repeated parts of a sequence ----------------------===//

#include "Repetition.h"

using namespace mlir::binade;

/// The longest part that is looked for; a block has fewer layers.
static constexpr size_t kMaxPeriod = 512;

Repetition mlir::binade::findRepetition(llvm::ArrayRef<unsigned> elements) {
  Repetition best;
  size_t size = elements.size();
  for (size_t period = 1; period <= std::min(size / 2, kMaxPeriod); ++period) {
    // A run of elements that are equal to those one period later.
    size_t run = 0;
    for (size_t i = 0; i + period < size; ++i) {
      run = elements[i] == elements[i + period] ? run + 1 : 0;
      size_t count = run / period + 1;
      if (count > 1 && count * period > best.count * best.period)
        best = {i + 1 - run, period, count};
    }
  }
  return best;
}
