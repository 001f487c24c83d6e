//===- ChooseSaved.h - Choices for saved values -----------------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_SAVED_CHOOSESAVED_H
#define BINADE_LIB_PRECISION_SAVED_CHOOSESAVED_H

#include "ErrorPropagation.h"

namespace mlir::binade {

/// A value that the backward pass reads, and the ways to provide it.
struct SavedValue {
  SaveOp save;
  uint64_t bytes = 0;
  /// Bytes of its quantized elements and scales; none if it must not be
  /// quantized.
  std::optional<uint64_t> quantizedBytes;
  /// The ops that recompute it, none if that is not cheap; the indices of the
  /// saved values that these ops read; and the number of elements that they
  /// read and write.
  SmallVector<Operation *> ops;
  SmallVector<unsigned> sources;
  uint64_t work = 0;
  /// The multiply-adds of these ops; 0 if they are cheap.
  uint64_t macs = 0;
  /// The gradients that an error in the value affects.
  ErrorPropagation reach;
  /// The position of its first use. Later uses affect fewer gradients.
  unsigned firstRead = 0;
  /// Whether the backward pass reads the value without a `save` in the program,
  /// as it does a copy of a parameter.
  bool isImplicit = false;
  SavedChoice choice = SavedChoice::Keep;

  uint64_t getBytesLeft() const;
};

/// Returns all values that the backward pass of `body` reads, in the order of
/// their definitions. Changes the saves: afterwards each value has one `save`,
/// and views of a value are views of the saved value. Bytes are for `format`.
/// Unless `recomputesMatmuls` is set, contractions are not recomputed.
std::vector<SavedValue> collectSaved(Block &body, QuantizedAttr format,
                                     bool recomputesMatmuls);
/// Erases `save`; its users read the value itself.
void eraseSave(SaveOp save);

/// Chooses what happens to each of `values`, which are in the order of their
/// definitions, so that the saved bytes fit into `budget`. Recomputes values
/// first, because that is exact, starting with those that free the most bytes
/// for their work, and those that need contractions after all others. A value
/// that such a recomputation reads is not recomputed by contractions itself:
/// otherwise the backward pass would begin by recomputing the forward pass, and
/// would keep all of it. Then quantizes values: first those whose error affects
/// only one gradient, large ones before small ones, then those with the latest
/// first use. Finally undoes choices that are not needed. Returns the remaining
/// bytes, which may exceed `budget`.
uint64_t chooseSaved(MutableArrayRef<SavedValue> values, uint64_t budget);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_SAVED_CHOOSESAVED_H
