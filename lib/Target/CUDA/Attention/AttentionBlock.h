//===- AttentionBlock.h - Common parts of attention kernels -----*- C++ -*-===//
//
// A block of threads has some rows of one head, queries or keys, and iterates
// over tiles of the rows of the other side. Each warp has 16 or 32 of the
// block's rows, whose elements stay in registers as left operands of matmuls;
// the tiles of the other side are in shared memory, twice: while one copy is
// multiplied, the other one is filled asynchronously. Scores are in registers,
// eight per thread and matmul of 16 by 16, in the layout that the left operand
// of the next matmul needs (FlashAttention-2, Dao 2023).
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
  static constexpr int64_t kThreads = 128, kWarp = 32,
                           kWarps = kThreads / kWarp;
  /// Rows of the other side that are multiplied at a time.
  static constexpr int64_t kChunk = 16;
  /// Lanes that share rows, scores per thread and chunk, rows of a matmul, and
  /// the distance between a thread's two rows.
  static constexpr int64_t kSharers = 4, kScores = 8,
                           kMatmulRows = WarpMma::kRows,
                           kBelow = WarpMma::kSide;

  /// Indices of `GpuAttention::tensors`. For gradients, `Factors` is the
  /// workspace, the last argument of the kernel.
  enum Which { Query, Key, Values, Y, Lse, Dy, Dquery, Dkey, Dvalue, Factors };
  /// The columns of `Factors`, which are what the exponents and the gradients
  /// of a query's scores have in common: -lse log2(e), -scale sum(dy y). Of
  /// scores that are changed, exponents are (score - Reference) log2(e) +
  /// Exponent.
  enum Factor { Exponent, Inner, Reference };
  static int64_t countFactors(const GpuAttention &attention) {
    return attention.extras.changeScores() ? 3 : 2;
  }

  /// How a kernel divides its work.
  struct Shape {
    bool hasQueries; ///< Blocks have rows of queries; otherwise of keys.
    /// Matmuls of 16 rows that a warp computes with the same right operand.
    int64_t sets = 1;
    /// Blocks that a multiprocessor should hold, which bounds the registers.
    int32_t blocks = 2;
    /// The gradient of a bias, by its index in `GpuAttention::biasGradients`,
    /// of which a block computes a tile: it sums over the heads, and perhaps
    /// the queries or keys, along which the bias is broadcast.
    std::optional<size_t> biasGradient = std::nullopt;
  };

  /// Begins a kernel `name`. With a causal mask, the blocks with the most work
  /// are the first.
  AttentionBlock(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                 StringRef name, Shape shape);

  //===--------------------------------------------------------------------===//
  // Scores of a thread
  //===--------------------------------------------------------------------===//

  // Of a matmul, a thread has eight scores: elements 0, 1, 4 and 5 of one row,
  // and 2, 3, 6 and 7 of the row eight below; 4 to 7 are eight columns further.
  // A value per row is a vector of two; four lanes share the rows.

  Value splat(double value, int64_t count) const;
  Value scale(Value x, double factor) const;
  Value fma(Value x, Value y, Value z) const;
  Value add(Value x, Value y) const;
  Value subtract(Value x, Value y) const;
  Value multiply(Value x, Value y) const;
  /// Returns the larger one; NaN if one of them is.
  Value maximize(Value x, Value y) const;
  /// Returns 2^x, with an error of up to two units in the last place.
  Value exp2(Value x) const;
  /// Broadcasts a value per row to the scores of the row.
  Value broadcastRows(Value two) const;
  /// Broadcasts a factor of each query, one per column of the chunk, to the
  /// scores of the column.
  Value broadcastColumns(Factor factor, int64_t chunk) const;
  /// Reduces the thread's scores of each row to a value per row.
  Value sumRows(Value scores) const;
  Value maximizeRows(Value scores) const;
  /// Reduces values per row over the lanes that share the rows.
  Value sumLanes(Value two) const;
  Value maximizeLanes(Value two) const;
  /// Whether a condition holds for any element of the vectors in any lane.
  Value isAny(ArrayRef<Value> conditions) const;
  /// Rounds scores to the left operand of a matmul.
  Value round(Value scores) const;

  //===--------------------------------------------------------------------===//
  // Masks, biases, soft caps and dropout
  //===--------------------------------------------------------------------===//

  /// Scores of a set and a chunk of the current tile.
  struct Scores {
    Value scores;
    Value tangents; ///< Hyperbolic tangents of the soft cap; null without one.
    Value visible;  ///< Null without a mask.
  };
  /// Returns the scores of products, without the causal mask.
  Scores finishScores(Value products, int64_t set, int64_t chunk) const;
  /// Sets what dropout drops to 0. What it keeps is not yet multiplied by
  /// `getKeptFactor`. Returns `x` without dropout.
  Value drop(Value x, Value kept) const;
  /// Draws which probabilities are kept; null without dropout.
  Value drawKept(int64_t set, int64_t chunk) const;
  /// Returns the factor of kept probabilities; 1 without dropout.
  double getKeptFactor() const;
  /// Whether the magnitude of a row of the block is larger than `limit`, for
  /// all warps. Rows that are NaN or -infinity do not count.
  Value isAnyRowBeyond(Which which, double limit) const;

  //===--------------------------------------------------------------------===//
  // Rows
  //===--------------------------------------------------------------------===//

  /// Returns the rows of this warp as left operands of matmuls, those of each
  /// set one after the other.
  SmallVector<Value> loadOwn(Which which);
  /// Multiplies them by the rows of a chunk of the current tile of `other`:
  /// eight scores of each set.
  SmallVector<Value> multiplyRows(ArrayRef<Value> own, Which other,
                                  int64_t chunk) const;
  /// Adds the rows of a chunk of the current tile of `other`, multiplied by the
  /// weights of each set, to `sums`.
  void addRows(ArrayRef<Value> weights, Which other, int64_t chunk,
               MutableArrayRef<Value> sums) const;
  /// Return zeros for sums of `sets` times 16 rows, or store the sums of the
  /// block's own rows.
  SmallVector<Value> startSums(int64_t columns, int64_t sets) const;
  void storeSums(Which which, ValueRange sums) const;

  /// Load or store column `column` of a tensor for the thread's two rows of a
  /// set.
  Value loadRows(Which which, int64_t set, int64_t column = 0) const;
  void storeRows(Which which, int64_t set, Value two, int64_t column = 0) const;
  /// Returns the dot product of each of these rows of two tensors.
  Value multiplyOwn(Which one, Which other, int64_t set) const;

  //===--------------------------------------------------------------------===//
  // Control flow
  //===--------------------------------------------------------------------===//

  /// Emits `body` for each head over which the block sums: those that share its
  /// keys, or a bias. `before` are the values that the body of the previous
  /// head returned.
  using ChainedBody = function_ref<SmallVector<Value>(ValueRange before)>;
  SmallVector<Value> forEachHead(ValueRange start, ChainedBody body);

  /// Emits `step` for each tile of the other side that the mask does not hide
  /// completely, with the values that the previous step returned.
  using Step =
      function_ref<SmallVector<Value>(ValueRange before, bool isMasked)>;
  SmallVector<Value> forEachTile(ArrayRef<Which> others, ValueRange start,
                                 Step step);

  /// Emits `body`. In a masked tile, emits a branch that returns `before` if
  /// the mask hides all scores of a chunk from the warp.
  using Body = function_ref<SmallVector<Value>()>;
  SmallVector<Value> unlessHidden(int64_t chunk, bool isMasked,
                                  ValueRange before, Body body);

  /// Sets the scores of a chunk of the current tile to -infinity where the mask
  /// hides them or the key does not exist.
  Value mask(Value scores, int64_t set, int64_t chunk) const;

  //===--------------------------------------------------------------------===//
  // Gradients of biases
  //===--------------------------------------------------------------------===//

  // A block has queries and keys of its own, unless it sums over all of them.

  bool hasOwnQueries() const { return getBiasGradient().rows != 0; }
  bool hasOwnKeys() const { return getBiasGradient().columns != 0; }
  /// Emits `body` unless the causal mask hides all scores of the block's own
  /// queries and keys; then the result is `start`.
  SmallVector<Value> unlessAllHidden(ValueRange start, Body body);
  /// Emits `body` for the block's own tile of queries, or for each tile.
  SmallVector<Value> forEachQueryTile(ValueRange start, ChainedBody body);
  /// Emits `step` for the block's own tile of keys, or for each tile.
  SmallVector<Value> forEachKeyTile(ValueRange start, Step step);
  /// Stores sums of scores by chunk, or of all chunks if the block has no keys
  /// of its own, after adding up those of the same element.
  void storeBiasGradient(ArrayRef<Value> sums) const;

  void finish() { gpu::ReturnOp::create(b); }

  int64_t countChunks() const { return tileRows / kChunk; }

  const GpuAttention &attention;
  const Shape shape;
  ImplicitLocOpBuilder &b;
  Indices at;

private:
  void describeOperands();
  void describeExtras();
  size_t indexOf(Which which) const {
    return which == Factors ? operands.size() - 1 : which;
  }
  /// Returns the argument of the bias `number`; after the last bias, of the
  /// mask.
  size_t indexOfBias(size_t number) const {
    return attention.tensors.size() + number;
  }
  const GpuAttention::Tensor &getBiasGradient() const {
    return attention.biasGradients[*shape.biasGradient].out;
  }
  /// Returns the argument of the gradient of bias `number`.
  size_t indexOfBiasGradient(size_t number) const {
    return operands.size() - 1 - attention.biasGradients.size() + number;
  }
  /// Returns the batch axes of the blocks: those over which a block sums have
  /// size 1.
  SmallVector<int64_t> getBlockBatch() const;
  /// Returns the number of blocks for each entry of these axes.
  int64_t countBlocksPerEntry() const;
  void createKernel(StringRef name);
  int64_t countColumns(Which which) const;
  Extent getRows(Which which) const;
  Gather gather(Which which) const;
  int64_t countOwnRows() const { return kWarps * kMatmulRows * shape.sets; }
  Value findOwnRow(int64_t set) const;
  /// Adds up the sums of all queries, over the block's threads. Returns the
  /// gradient of the thread's column of the tile, or of all columns if the
  /// block has no keys of its own.
  Value addWarps(ArrayRef<Value> sums) const;
  /// Returns the first column of the thread in the current tile.
  Value findColumn() const;
  /// Loads the elements of a bias or the mask that are broadcast to the scores.
  /// Those of scores that do not exist are anything.
  Value loadScores(size_t index, int64_t set, int64_t chunk) const;
  /// Sets scores of queries that do not exist to -infinity. Those of keys are
  /// set by `mask`.
  Value hideQueries(Value scores, int64_t chunk) const;
  /// Returns the indices among all scores of all heads, as two words.
  std::pair<Value, Value> countScores(int64_t set, int64_t chunk) const;
  /// Returns a number for each score: `base` plus that of its offset from the
  /// first one, in rows and columns.
  Value offsetScores(Value base, int64_t set, int64_t chunk,
                     function_ref<int64_t(int64_t, int64_t)> offset) const;
  void loadRandomState();
  /// Returns the place of the warp's first row in the current tile.
  Value compareWithTile() const;

  using Combine = function_ref<Value(Value, Value)>;
  Value combineRows(Value scores, Combine combine) const;
  Value combineLanes(Value two, Combine combine) const;

  /// Allocates shared memory.
  void allocate();
  /// Starts to copy rows from `first` on to shared memory.
  void copyRows(Which which, Value first, int64_t rows, const SharedTile &tile,
                Value start) const;
  void copyElements(const Gather::Place &from, Value source, Value to,
                    Value place, int64_t width) const;
  void copyFactors(Value first, Value number) const;
  /// Starts to copy tile `number` of the other side.
  void copyTile(ArrayRef<Which> others, Value number) const;
  /// Waits until the copies of all threads are complete.
  void awaitCopies() const;
  SmallVector<Value> loop(ArrayRef<Which> others, Value first, Value last,
                          Value end, ValueRange start, bool isMasked,
                          Step step);
  SmallVector<Value> visit(ArrayRef<Which> others, Value tile, Value end,
                           ValueRange before, bool isMasked, Step step);
  const SharedTile &getTile(Which which) const {
    return tilesOf[which == Values || which == Dy];
  }

  int64_t tileRows;          ///< Rows of a tile of the other side.
  int64_t tiles, otherTiles; ///< Tiles per head.
  Type format;
  SmallVector<Operand, 10> operands; ///< By argument of the kernel.
  gpu::GPUFuncOp kernel;
  SmallVector<Value> memory; ///< Memory of the operands.
  SmallVector<Value> starts; ///< Start of the head in each operand.
  WarpMma matrices;
  Value thread, batch, tile, firstRow, warp, group, member;
  Value head;                ///< Of the queries, among those of all samples.
  std::array<Value, 2> seed; ///< Words of the generator's seed.
  Value step;                ///< Low word of the generator's step.
  /// Tiles of key or query, and of value or dy, in shared memory.
  std::array<SharedTile, 2> tilesOf;
  Value factors;        ///< Factors of the queries of a tile, twice.
  Value partial;        ///< Sums of each warp for the gradient of a bias.
  Value current, stage; ///< The current tile, and which copy of it.
  Value keyTile;        ///< The block's own tile of keys.
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_ATTENTION_ATTENTIONBLOCK_H
