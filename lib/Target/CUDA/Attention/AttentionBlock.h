//===- AttentionBlock.h - what attention's kernels share --------*- C++ -*-===//
//
// A block of threads has some rows of one head, queries or keys, and goes
// through the rows of the other side, as many at a time. Of its own rows each
// warp has 16, whose elements stay in registers as the left sides of products;
// those of the other side are in shared memory. Scores are in registers, eight
// for each thread from a product of 16 by 16, and as they lie there they are
// the left side of the next product (FlashAttention-2, Dao 2023).
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_TARGET_CUDA_ATTENTION_ATTENTIONBLOCK_H
#define BINADE_LIB_TARGET_CUDA_ATTENTION_ATTENTIONBLOCK_H

#include "../Product/Gather.h"
#include "../Product/WarpProduct.h"

namespace mlir::binade {

class AttentionBlock {
public:
  static constexpr int64_t kThreads = 128;
  /// Rows of a block, and of the other side at a time.
  static constexpr int64_t kRows = 64;
  /// Rows of the other side that are multiplied together.
  static constexpr int64_t kChunk = 16;
  static constexpr int64_t kChunks = kRows / kChunk;
  static constexpr int64_t kWarp = 32;
  /// Lanes that share rows, scores of a thread in a chunk, rows of a warp, and
  /// how far below its first row a thread has its second.
  static constexpr int64_t kSharers = 4, kScores = 8,
                           kWarpRows = WarpProduct::kRows,
                           kBelow = WarpProduct::kSide;

  /// Of `GpuAttention::tensors`, and the workspace behind those of gradients.
  enum Which { Query, Key, Values, Y, Lse, Dy, Dquery, Dkey, Dvalue, Inner };

  /// Begins a kernel `name`, whose blocks have rows of queries or of keys.
  /// Where positions are masked, the blocks with the most work are first.
  AttentionBlock(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                 StringRef name, bool hasQueries);

  //===--------------------------------------------------------------------===//
  // Numbers of a thread
  //===--------------------------------------------------------------------===//

  // A thread has eight scores of a product: elements 0, 1, 4 and 5 of a row,
  // 2, 3, 6 and 7 of the row eight below; 4 to 7 are eight columns further.
  // What it has of these two rows is [2]; four lanes share them.

  Value splat(double value, int64_t count) const;
  Value scale(Value x, double factor) const;
  Value fma(Value x, Value y, Value z) const;
  Value exp(Value x) const;
  /// Two numbers of rows, where the scores of each row are.
  Value spreadRows(Value two) const;
  /// f32 of shared memory, one for each column from `first` on, where the
  /// scores of each column are.
  Value spreadColumns(Value numbers, int64_t first) const;
  /// Of the scores of each row: [2].
  Value sumRows(Value scores) const;
  Value maximizeRows(Value scores) const;
  /// Over the lanes that share rows.
  Value sumLanes(Value two) const;
  Value maximizeLanes(Value two) const;
  /// Scores as the left side of a product.
  Value round(Value scores) const;
  /// -infinity for scores of a chunk that the mask hides, or whose keys do not
  /// exist. `otherTile` counts rows of the other side.
  Value mask(Value scores, Value otherTile, int64_t chunk) const;

  //===--------------------------------------------------------------------===//
  // Rows
  //===--------------------------------------------------------------------===//

  /// Shared memory for kRows rows of `columns` elements, and for numbers.
  SharedTile allocate(int64_t columns);
  Value allocateNumbers(int64_t count);

  /// Fills tiles with the rows of tensors from `first` on. All threads wait for
  /// each other before and after; in between `store` stores what else there is.
  using Filled = std::pair<Which, const SharedTile *>;
  void fill(
      ArrayRef<Filled> tiles, Value first,
      function_ref<void()> store = [] {}) const;

  /// The rows of this warp in `tile`, as left sides of products.
  SmallVector<Value> loadOwn(const SharedTile &tile) const;
  /// The products of these with the rows of a chunk of `tile`: eight scores.
  Value multiplyRows(ArrayRef<Value> own, const SharedTile &tile,
                     int64_t chunk) const;
  /// Adds the rows of a chunk of `tile`, each times its weight, to `sums`.
  void addRows(Value weights, const SharedTile &tile, int64_t chunk,
               MutableArrayRef<Value> sums) const;
  /// Zeros for sums of the own rows, and what becomes of them.
  SmallVector<Value> startSums(int64_t columns) const;
  void storeSums(Which which, ValueRange sums) const;

  /// What a tensor has one of for each row: of the own rows [2], or of row
  /// `row` a number.
  Value loadRows(Which which) const;
  void storeRows(Which which, Value two) const;
  Value loadRow(Which which, Value row) const;
  /// Sums over columns of products of own rows: [2].
  Value multiplyOwn(Which one, Which other) const;

  //===--------------------------------------------------------------------===//
  // The whole
  //===--------------------------------------------------------------------===//

  /// `step` for each tile of the other side of which something is visible, with
  /// what the one before it returned.
  using Step = function_ref<SmallVector<Value>(
      Value otherTile, ValueRange before, bool isMasked)>;
  SmallVector<Value> forEachTile(ValueRange start, Step step) const;

  void finish() { gpu::ReturnOp::create(b); }

  const GpuAttention &attention;
  ImplicitLocOpBuilder &b;
  Indices at;
  Value thread;
  Value firstRow; ///< Of the block.

private:
  void describeOperands();
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
  int64_t tiles, otherTiles; ///< Of a head.
  Type format;
  SmallVector<Operand, 10> operands;
  gpu::GPUFuncOp kernel;
  SmallVector<Value> memory; ///< Of the operands.
  SmallVector<Value> starts; ///< Of the head, in each operand.
  WarpProduct matrices;
  Value batch, tile, warp, group, member;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_ATTENTION_ATTENTIONBLOCK_H
