//===- ExponentHistogram.h - a histogram of exponents -----------*- C++ -*-===//
//
// An item of a CPU's kernel keeps the biased exponents of its elements as bytes
// and counts at the end: for each exponent that a chunk of bytes may hold, one
// comparison of 64 bytes gives 64 truths, whose ones are counted at once.
// Adding 1 to an entry of memory for each element takes several times as long.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_EXPONENTHISTOGRAM_H
#define BINADE_LIB_CODEGEN_LOOPS_EXPONENTHISTOGRAM_H

#include "Emitter.h"

namespace mlir::binade {

class ExponentHistogram {
public:
  /// For items of up to `most` elements.
  ExponentHistogram(Emitter &e, int64_t most);

  /// Keeps the exponents of `magnitudes`, bits of f32 lane by lane, as those of
  /// elements `place` of the item and the following ones.
  void keep(Value magnitudes, Value place) const;

  /// Stores how many of the first `count` elements have each exponent, as i32,
  /// in `histogram` from `first` on.
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
  int64_t vectors; ///< Of a chunk.
  Value bytes;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_EXPONENTHISTOGRAM_H
