//===- OnlineSoftmax.h - Softmax in one pass over the keys ------*- C++ -*-===//
//
// Exponentials are powers of two relative to a reference of each query, which
// is at most 8 below the largest score so far, in units of powers of two: the
// sums are multiplied by a power of two only when a score exceeds it by more,
// which few tiles after the first do.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_TARGET_CUDA_ATTENTION_ONLINESOFTMAX_H
#define BINADE_LIB_TARGET_CUDA_ATTENTION_ONLINESOFTMAX_H

#include "AttentionBlock.h"

namespace mlir::binade {

/// What a thread knows of its queries: for each set of rows, the reference and
/// the thread's part of the sum of exponentials, then the weighted sums of
/// values.
struct Softmax {
  explicit Softmax(ValueRange all, int64_t sets)
      : references(all.take_front(sets)), totals(all.slice(sets, sets)),
        sums(all.drop_front(2 * sets)) {}

  SmallVector<Value> pack() const {
    SmallVector<Value> all(references);
    llvm::append_range(all, totals);
    llvm::append_range(all, sums);
    return all;
  }

  SmallVector<Value> references, totals, sums;
};

/// Emits the steps of a block of queries.
class OnlineSoftmax {
public:
  /// `query` are the rows of the block.
  OnlineSoftmax(AttentionBlock &block, SmallVector<Value> query)
      : block(block), b(block.b), sets(block.shape.sets),
        query(std::move(query)) {}

  /// Returns references and totals before the first tile.
  SmallVector<Value> start() const;
  using Scores = SmallVector<SmallVector<Value>>;
  /// Returns the exponentials of the current tile by chunk and set, 0 where the
  /// mask hides them, and adds them to the totals.
  Scores visit(Softmax &softmax, bool isMasked);

private:
  /// Returns the scores of the current tile by chunk and set, -infinity where
  /// the mask hides them.
  Scores computeScores(bool isMasked);
  /// Moves the references if a score of the tile is too large for them.
  void moveReferences(ArrayRef<SmallVector<Value>> scores, Softmax &softmax);

  AttentionBlock &block;
  ImplicitLocOpBuilder &b;
  int64_t sets;
  SmallVector<Value> query;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_ATTENTION_ONLINESOFTMAX_H
