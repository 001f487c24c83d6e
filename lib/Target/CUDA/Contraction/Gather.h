//===- Gather.h - Access to the elements of an operand ----------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_CONTRACTION_GATHER_H
#define BINADE_LIB_TARGET_CUDA_CONTRACTION_GATHER_H

#include "Contraction.h"
#include "Indices.h"
#include "binade/Target/CUDA.h"

namespace mlir::binade {

/// Converts a scalar or vector to another format: 8-bit floats to f32 or a
/// 16-bit format that represents them exactly, 16-bit formats to f32, and f32
/// to a 16-bit format.
Value convert(ImplicitLocOpBuilder &b, Value x, Type element);

/// The number of entries or terms, and the number that kernels access.
struct Extent {
  int64_t size, padded;
};

/// Loads and stores elements of an operand by the indices of entry and term.
class Gather {
public:
  /// `start` is the first element of this block's batch entry.
  Gather(Indices indices, const Operand &operand, Value memory, Value start,
         Extent entries, Extent terms)
      : at(indices), operand(operand), memory(memory), start(start),
        entries(entries), terms(terms) {}

  /// The part of an address that depends on only an entry or only a term,
  /// computed once for many elements.
  struct Share {
    Value place;
    SmallVector<Value> windows; ///< Its part of each window's position.
    Value exists;               ///< Null: always.
  };
  Share findEntry(Value number) const;
  Share findTerm(Value number) const;

  /// The place of an element in memory, and whether it exists.
  struct Place {
    Value index;
    Value exists; ///< Null: always.
  };
  Place find(const Share &entry, const Share &term) const;

  /// Loads `width` elements from `place` on, or zeros if they do not exist. It
  /// does not branch: elements that do not exist are loaded from the start of
  /// the memory and dropped.
  Value load(const Place &place, int64_t width) const;
  void store(Value x, const Place &place) const;

private:
  SmallVector<Value> splitDigits(Value number, ArrayRef<Axis> axes) const;
  Value sumPlaces(ArrayRef<Value> digits, ArrayRef<Axis> axes) const;

  Indices at;
  const Operand &operand;
  Value memory, start;
  Extent entries, terms;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CONTRACTION_GATHER_H
