//===- Gather.h - elements of an operand in a kernel ------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_PRODUCT_GATHER_H
#define BINADE_LIB_TARGET_CUDA_PRODUCT_GATHER_H

#include "Contraction.h"
#include "Indices.h"
#include "binade/Target/CUDA.h"

namespace mlir::binade {

/// A number or a vector in another format: codes of 8 bits to any that holds
/// them, narrower ones to f32.
Value convert(ImplicitLocOpBuilder &b, Value x, Type element);

/// How many entries or terms there are, and how many are asked for.
struct Extent {
  int64_t size, padded;
};

class Gather {
public:
  /// `start` is the first element of this block's part of the batch.
  Gather(Indices indices, const Operand &operand, Value memory, Value start,
         Extent entries, Extent terms)
      : at(indices), operand(operand), memory(memory), start(start),
        entries(entries), terms(terms) {}

  /// What a number says of the place by itself, computed once for many.
  struct Share {
    Value place;
    SmallVector<Value> windows; ///< Null where it has no say.
    Value exists;               ///< Null: yes.
  };
  Share findEntry(Value number) const;
  Share findTerm(Value number) const;

  struct Place {
    Value index;
    Value exists; ///< Null: yes.
  };
  Place find(const Share &entry, const Share &term) const;

  /// `width` elements from there on, or 0s. Nothing branches: what does not
  /// exist is loaded from the memory's begin and dropped.
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

#endif // BINADE_LIB_TARGET_CUDA_PRODUCT_GATHER_H
