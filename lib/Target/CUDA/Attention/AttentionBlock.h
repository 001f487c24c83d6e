//===- AttentionBlock.h - Common parts of attention kernels -----*- C++ -*-===//
//
// A block of threads has some rows of one head, queries or keys, and iterates
// over tiles of the rows of the other side. Each warp has 16 of the block's
// rows, whose elements stay in registers as left operands of matmuls; the tiles
// of the other side are in shared memory. Scores are in registers, eight per
// thread and matmul of 16 by 16, in the layout that the left operand of the
// next matmul needs (FlashAttention-2, Dao 2023).
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_TARGET_CUDA_ATTENTION_ATTENTIONBLOCK_H
#define BINADE_LIB_TARGET_CUDA_ATTENTION_ATTENTIONBLOCK_H

#include "../Contraction/Gather.h"
#include "../Contraction/WarpMma.h"

namespace mlir::binade {

/// Emits the code of one block of an attention kernel.
class AttentionBlock {
public:
  static constexpr int64_t kThreads = 128;
  /// Rows of a block, and of a tile of the other side.
  static constexpr int64_t kRows = 64;
  /// Rows of the other side that are multiplied at a time.
  static constexpr int64_t kChunk = 16;
  static constexpr int64_t kChunks = kRows / kChunk;
  static constexpr int64_t kWarp = 32;
  /// Lanes that share rows, scores per thread and chunk, rows per warp, and the
  /// distance between a thread's two rows.
  static constexpr int64_t kSharers = 4, kScores = 8,
                           kWarpRows = WarpMma::kRows, kBelow = WarpMma::kSide;

  /// Indices of `GpuAttention::tensors`; for gradients, the workspace follows.
  enum Which { Query, Key, Values, Y, Lse, Dy, Dquery, Dkey, Dvalue, Inner };

  /// Begins a kernel `name` whose blocks have rows of queries or of keys. With
  /// a causal mask, the blocks with the most work are the first.
  AttentionBlock(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                 StringRef name, bool hasQueries);

  //===--------------------------------------------------------------------===//
  // Scores of a thread
  //===--------------------------------------------------------------------===//

  // Of a matmul, a thread has eight scores: elements 0, 1, 4 and 5 of one row,
  // and 2, 3, 6 and 7 of the row eight below; 4 to 7 are eight columns further.
  // A value per row is a vector of two; four lanes share the rows.

  Value splat(double value, int64_t count) const;
  Value scale(Value x, double factor) const;
  Value fma(Value x, Value y, Value z) const;
  Value exp(Value x) const;
  /// Broadcasts a value per row to the scores of the row.
  Value broadcastRows(Value two) const;
  /// Broadcasts f32 values in shared memory, one per column from `first` on, to
  /// the scores of the columns.
  Value broadcastColumns(Value numbers, int64_t first) const;
  /// Reduces the thread's scores of each row to a value per row.
  Value sumRows(Value scores) const;
  Value maximizeRows(Value scores) const;
  /// Reduces values per row over the lanes that share the rows.
  Value sumLanes(Value two) const;
  Value maximizeLanes(Value two) const;
  /// Rounds scores to the left operand of a matmul.
  Value round(Value scores) const;
  /// Sets the scores of a chunk to -infinity where the mask hides them or the
  /// key does not exist. `otherTile` is the index of the tile of the other
  /// side.
  Value mask(Value scores, Value otherTile, int64_t chunk) const;

  //===--------------------------------------------------------------------===//
  // Rows
  //===--------------------------------------------------------------------===//

  /// Allocate shared memory for kRows rows of `columns` elements, or for
  /// `count` f32.
  SharedTile allocate(int64_t columns);
  Value allocateNumbers(int64_t count);

  /// Fills tiles with the rows of tensors from `first` on, between two
  /// barriers. `store` emits other stores to shared memory there.
  using Filled = std::pair<Which, const SharedTile *>;
  void fill(
      ArrayRef<Filled> tiles, Value first,
      function_ref<void()> store = [] {}) const;

  /// Returns the rows of this warp in `tile` as left operands of matmuls.
  SmallVector<Value> loadOwn(const SharedTile &tile) const;
  /// Multiplies them by the rows of a chunk of `tile`: eight scores.
  Value multiplyRows(ArrayRef<Value> own, const SharedTile &tile,
                     int64_t chunk) const;
  /// Adds the rows of a chunk of `tile`, multiplied by `weights`, to `sums`.
  void addRows(Value weights, const SharedTile &tile, int64_t chunk,
               MutableArrayRef<Value> sums) const;
  /// Returns zeros for sums of the block's own rows, or stores the sums.
  SmallVector<Value> startSums(int64_t columns) const;
  void storeSums(Which which, ValueRange sums) const;

  /// Load or store a tensor with one value per row: of the thread's two rows,
  /// or of row `row`.
  Value loadRows(Which which) const;
  void storeRows(Which which, Value two) const;
  Value loadRow(Which which, Value row) const;
  /// Returns the dot product of each of the thread's two rows of two tensors.
  Value multiplyOwn(Which one, Which other) const;

  //===--------------------------------------------------------------------===//
  // Control flow
  //===--------------------------------------------------------------------===//

  /// Emits `body` for each head that shares the keys of the block, with the
  /// values that the body of the previous head returned.
  SmallVector<Value>
  forEachHead(ValueRange start,
              function_ref<SmallVector<Value>(ValueRange before)> body);

  /// Emits `step` for each tile of the other side that the mask does not hide
  /// completely, with the values that the previous step returned.
  using Step = function_ref<SmallVector<Value>(
      Value otherTile, ValueRange before, bool isMasked)>;
  SmallVector<Value> forEachTile(ValueRange start, Step step) const;

  void finish() { gpu::ReturnOp::create(b); }

  const GpuAttention &attention;
  ImplicitLocOpBuilder &b;
  Indices at;
  Value thread;
  Value firstRow; ///< The block's first row.

private:
  void describeOperands();
  /// Returns the batch axes of the blocks.
  SmallVector<int64_t> getBlockBatch() const;
  void createKernel(StringRef name);
  int64_t countColumns(Which which) const;
  Extent getRows(Which which) const;
  Gather gather(Which which) const;
  Value findOwnRow() const;
  using Combine = function_ref<Value(Value, Value)>;
  Value combineRows(Value scores, Combine combine) const;
  Value combineLanes(Value two, Combine combine) const;
  SmallVector<Value> loop(Value first, Value last, ValueRange start,
                          Step step) const;

  bool hasQueries;
  int64_t tiles, otherTiles; ///< Tiles per head.
  Type format;
  SmallVector<Operand, 10> operands;
  gpu::GPUFuncOp kernel;
  SmallVector<Value> memory; ///< Memory of the operands.
  SmallVector<Value> starts; ///< Start of the head in each operand.
  WarpMma matrices;
  Value batch, tile, warp, group, member;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_ATTENTION_ATTENTIONBLOCK_H
