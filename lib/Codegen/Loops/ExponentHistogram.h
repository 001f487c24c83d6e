//===- ExponentHistogram.h - Histogram of exponents on CPUs -----*- C++ -*-===//
//
// Counts the exponents of a work item's elements. The biased exponents are
// first stored as bytes and counted at the end: for each exponent in the range
// of a chunk of bytes, a comparison of 64 bytes gives a 64-bit mask, whose ones
// are counted by one instruction. Adding 1 to an entry in memory for each
// element takes several times as long.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_EXPONENTHISTOGRAM_H
#define BINADE_LIB_CODEGEN_LOOPS_EXPONENTHISTOGRAM_H

#include "Emitter.h"

namespace mlir::binade {

/// Counts the exponents of the elements of one work item.
class ExponentHistogram {
public:
  /// Allocates memory for work items of up to `most` elements.
  ExponentHistogram(Emitter &e, int64_t most);

  /// Stores the exponents of `magnitudes`, lanes of f32 bit patterns, for the
  /// elements of the work item from `place` on.
  void keep(Value magnitudes, Value place) const;

  /// Counts the exponents of the first `count` elements, and stores the counts
  /// as i32 in `histogram` from `first` on.
  void store(Value count, Value histogram, const Offset &first) const;

private:
  void storeBytes(Value values, Value at) const;
  Value loadBytes(Value at) const;
  Value broadcastByte(Value byte) const;
  Value countEqual(ArrayRef<Value> chunk, Value byte) const;
  std::pair<Value, Value> findRange(ArrayRef<Value> chunk) const;
  void countChunk(ArrayRef<Value> chunk, Value histogram, Value first) const;

  Emitter &e;
  ImplicitLocOpBuilder &b;
  int64_t vectors; ///< Per chunk.
  Value bytes;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_EXPONENTHISTOGRAM_H
