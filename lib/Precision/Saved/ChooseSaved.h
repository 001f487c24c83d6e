//===- ChooseSaved.h - What a budget does to saved values -------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_SAVED_CHOOSESAVED_H
#define BINADE_LIB_PRECISION_SAVED_CHOOSESAVED_H

#include "ErrorPropagation.h"

namespace mlir::binade {

/// A value that the backward part reads, and how it may get there.
struct SavedValue {
  SaveOp save;
  uint64_t bytes = 0;
  /// Of its codes and scales; none where it must not be quantized.
  std::optional<uint64_t> quantizedBytes;
  /// What makes it again, none where that is not cheap; the values before it
  /// that these ops read, by number; and how many elements they read and write.
  SmallVector<Operation *> ops;
  SmallVector<unsigned> sources;
  uint64_t work = 0;
  /// What an error in it enters.
  ErrorPropagation reach;
  /// Where it is first read: the later, the fewer gradients are behind it.
  unsigned firstRead = 0;
  /// Whether it would wait without the op `save`, as a copy of a parameter
  /// does.
  bool isImplicit = false;
  SavedChoice choice = SavedChoice::Keep;

  uint64_t getBytesLeft() const;
};

/// All values that the backward part of `body` reads, in the order of their
/// definitions: each has one `save` afterwards, and views of it are views of
/// what that keeps. Some may be quantized to `format`.
std::vector<SavedValue> collectSaved(Block &body, QuantizedAttr format);
/// Has readers read the value itself.
void forgetSave(SaveOp save);

/// Makes the choices so that what is left of all values, in the order of their
/// definitions, fits into `budget`.
/// What is exact comes first: values are made again, those first that free most
/// bytes for their work; only then some are quantized, first those whose error
/// enters one gradient alone, large ones before small ones, then those that are
/// read last. What turns out not to be needed is undone. Returns the bytes that
/// are left, which may be more than `budget`.
uint64_t chooseSaved(MutableArrayRef<SavedValue> values, uint64_t budget);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_SAVED_CHOOSESAVED_H
