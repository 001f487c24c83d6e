//===- TransposedCopy.cpp - Transposed matrices on GPUs -------------------===//
//
// On a GPU, a kernel writes matrices with rows and columns swapped, and may
// also write them as they are. A work item is a tile of a matrix. A thread has
// a vector in each of four rows, and stores the four elements of each column to
// shared memory. Then it loads up to 16 bytes of a column, and stores them as
// part of a row of the transposed result.
//
// In shared memory a column of the tile consists of chunks of 16 bytes. Their
// order is swizzled (XOR with the position of the thread along a row), which
// avoids bank conflicts of stores and loads.
//
//===----------------------------------------------------------------------===//

#include "FullReduction.h"
#include "binade/IR/TransposedMatrices.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

/// Threads along a row of a tile.
static constexpr int64_t kThreadsAcross = 8;
/// Rows per thread.
static constexpr int64_t kRows = 4;
/// Bytes of a chunk.
static constexpr int64_t kChunkBytes = 16;
/// Bytes of shared memory for all transposed results.
static constexpr int64_t kMaxTileBytes = 32 * 1024;

namespace {
/// Transposes four vectors of four elements: returns the columns.
SmallVector<Value> transposeSquare(ImplicitLocOpBuilder &b,
                                   ArrayRef<Value> rows) {
  auto pick = [&](Value x, Value y, ArrayRef<int64_t> lanes) -> Value {
    return vector::ShuffleOp::create(b, x, y, lanes);
  };
  SmallVector<Value> columns;
  for (int64_t half : {0, 2}) {
    SmallVector<int64_t> pairs = {half, half + 4, half + 1, half + 5};
    Value upper = pick(rows[0], rows[1], pairs);
    Value lower = pick(rows[2], rows[3], pairs);
    columns.push_back(pick(upper, lower, {0, 1, 4, 5}));
    columns.push_back(pick(upper, lower, {2, 3, 6, 7}));
  }
  return columns;
}

/// Emits a kernel with transposed results for a GPU.
class TransposedCopyKernel {
public:
  TransposedCopyKernel(const KernelSource &source, Matrices matrices)
      : source(source), matrices(matrices), results(source.getResults()),
        reductions(source.function),
        lanes(source.chooseLanes(matrices.columns)), shape(*source.shape) {
    shape.lanes = lanes;
    shape.team = kThreadsAcross;
    shape.down = shape.threads / kThreadsAcross;
    height = shape.down * kRows;
    width = kThreadsAcross * lanes;
    int64_t elements = matrices.count * matrices.rows * matrices.columns;
    for (auto [index, result] : llvm::enumerate(results)) {
      Operation *op = result.getDefiningOp();
      if (findTransposedMatrices(op) == matrices)
        transposed.push_back(index);
      else if (getTensor(result).getNumElements() == elements)
        plain.push_back(index);
      else
        others.push_back(index);
    }
  }

  FailureOr<KernelInfo> emit() {
    KernelInfo info;
    info.symbol = source.symbol;
    info.hasStatus = source.hasIndices();
    down = llvm::divideCeil(matrices.rows, height);
    across = llvm::divideCeil(matrices.columns, width);
    reductions.setItems(matrices.count * down * across, info);
    Emitter items(source.function, source.formulas, source.into,
                  source.symbol + ".items",
                  TypeRange(source.getBuffers(info.workspaceBytes)), 2, shape);
    // No result may overwrite an operand, of which another thread may still
    // read the transposed element.
    items.setPlaces(std::nullopt, std::nullopt);
    items.forItems(info.extent,
                   [&](const Offset &item) { emitItem(items, item); });
    if (failed(reductions.finish(source, items, info, others)))
      return failure();
    return info;
  }

private:
  struct Tile {
    Offset batch;
    Value row, column; ///< The first row and column.
  };

  static Value add(Emitter &e, Value x, Value y) {
    return arith::AddIOp::create(e.builder(), x, y);
  }
  static Value multiply(Emitter &e, Value x, int64_t by) {
    return arith::MulIOp::create(e.builder(), x, e.index(by));
  }
  static std::pair<Value, Value> divide(Emitter &e, Value x, int64_t by) {
    return {arith::DivUIOp::create(e.builder(), x, e.index(by)),
            arith::RemUIOp::create(e.builder(), x, e.index(by))};
  }
  /// Returns x < count, where tiles of `size` cover `count`; null if this is
  /// always true.
  static Value isBelow(Emitter &e, Value x, int64_t count, int64_t size) {
    if (count % size == 0)
      return {};
    return arith::CmpIOp::create(e.builder(), arith::CmpIPredicate::ult, x,
                                 e.index(count));
  }

  void emitItem(Emitter &e, const Offset &counter) {
    auto [rest, column] = e.offsets().divide(counter, across).asPair();
    auto [batch, row] = e.offsets().divide(rest, down).asPair();
    Tile tile = {batch, e.number(row * height), e.number(column * width)};
    SmallVector<Value> memories(transposed.size());
    for (auto [index, memory] : llvm::zip(transposed, memories))
      memory = share(e, getWord(e, index));
    SmallVector<Value> partials = emitRows(e, tile, memories);
    reductions.store(e, partials, counter);
    e.barrier();
    for (auto [index, memory] : llvm::zip(transposed, memories))
      emitColumns(e, tile, index, memory);
    if (reductions.get().empty())
      emitSmallResults(e, others, counter);
  }

  /// Processes the thread's vectors: stores the results that are not
  /// transposed, and the columns of the others to `memories`. Returns partial
  /// results of the reductions.
  SmallVector<Value> emitRows(Emitter &e, const Tile &tile,
                              ArrayRef<Value> memories) {
    ImplicitLocOpBuilder &b = e.builder();
    auto [x, y] = e.threadPlace();
    Value row = add(e, tile.row, multiply(e, y, kRows));
    Value column = add(e, tile.column, multiply(e, x, lanes));
    Value exists = conjunction(b, isBelow(e, row, matrices.rows, height),
                               isBelow(e, column, matrices.columns, width));
    if (exists) {
      row = arith::SelectOp::create(b, exists, row, tile.row);
      column = arith::SelectOp::create(b, exists, column, tile.column);
    }
    SmallVector<Value> initial = reductions.start(e), partials = initial;
    e.perThread(lanes, exists, [&] {
      OffsetSpace &space = e.offsets();
      Offset first =
          tile.batch * (matrices.rows * matrices.columns) +
          space.counter(row, matrices.rows / kRows, e.depth(), kRows) *
              (kRows * matrices.columns) +
          space.counter(column, matrices.columns / lanes, e.depth(), lanes) *
              lanes +
          space.lanes(lanes);
      SmallVector<Offset> offsets;
      for (int64_t i = 0; i < kRows; ++i)
        offsets.push_back(first + Offset(i * matrices.columns));
      for (const Offset &offset : offsets)
        partials = reductions.accumulate(e, partials, offset);
      for (auto [index, memory] : llvm::zip(transposed, memories)) {
        Value x = results[index].getDefiningOp()->getOperand(0);
        storeParts(e,
                   llvm::map_to_vector(offsets,
                                       [&](const Offset &offset) {
                                         return e.broadcast(
                                             e.pull(x, offset).value);
                                       }),
                   memory);
      }
      for (const Offset &offset : offsets)
        storeResults(e, plain, offset);
    });
    if (exists)
      for (auto [value, before] : llvm::zip(partials, initial))
        value = arith::SelectOp::create(b, exists, value, before);
    return partials;
  }

  /// Returns the integer type as wide as the elements of result `index`.
  Type getWord(Emitter &e, unsigned index) const {
    Type element = getTensor(results[index]).getElementType();
    return e.builder().getIntegerType(element.getIntOrFloatBitWidth());
  }
  /// Allocates shared memory for a tile of `word`.
  Value share(Emitter &e, Type word) const {
    Value bytes = e.share(height * width * word.getIntOrFloatBitWidth() / 8);
    auto type =
        MemRefType::get({height * width}, word, MemRefLayoutAttrInterface(),
                        cast<MemRefType>(bytes.getType()).getMemorySpace());
    return memref::ViewOp::create(e.builder(), type, bytes, e.index(0),
                                  ValueRange());
  }
  /// Returns the elements of `word` in a chunk.
  static int64_t countInChunk(Type word) {
    return 8 * kChunkBytes / word.getIntOrFloatBitWidth();
  }

  /// Stores the columns of `vectors`, one for each of the thread's rows.
  void storeParts(Emitter &e, ArrayRef<Value> vectors, Value memory) {
    ImplicitLocOpBuilder &b = e.builder();
    auto [x, y] = e.threadPlace();
    Type word = cast<MemRefType>(memory.getType()).getElementType();
    int64_t inChunk = countInChunk(word);
    auto [chunk, within] = divide(e, y, inChunk / kRows);
    Value place = add(e, multiply(e, x, lanes * height),
                      add(e, multiply(e, swizzle(e, chunk, x), inChunk),
                          multiply(e, within, kRows)));
    auto vector = VectorType::get({lanes}, word);
    llvm::MaybeAlign alignment(kRows * word.getIntOrFloatBitWidth() / 8);
    for (int64_t lane = 0; lane < lanes; lane += kRows) {
      SmallVector<Value> rows;
      for (Value row : vectors)
        rows.push_back(vector::ExtractStridedSliceOp::create(
            b, arith::BitcastOp::create(b, vector, row),
            ArrayRef<int64_t>{lane}, ArrayRef<int64_t>{kRows},
            ArrayRef<int64_t>{1}));
      for (auto [index, column] : llvm::enumerate(transposeSquare(b, rows)))
        vector::StoreOp::create(
            b, column, memory,
            add(e, place,
                e.index((lane + static_cast<int64_t>(index)) * height)),
            /*nontemporal=*/false, alignment);
    }
  }

  /// Returns where a chunk of a column of the threads at position `x` is
  /// stored.
  Value swizzle(Emitter &e, Value chunk, Value x) const {
    return arith::XOrIOp::create(e.builder(), chunk, x);
  }

  /// Stores the columns of the tile in `memory` as rows of result `index`.
  void emitColumns(Emitter &e, const Tile &tile, unsigned index, Value memory) {
    ImplicitLocOpBuilder &b = e.builder();
    auto [x, y] = e.threadPlace();
    Value thread = add(e, multiply(e, y, kThreadsAcross), x);
    Type word = getWord(e, index);
    int64_t inChunk = countInChunk(word);
    int64_t piece = std::gcd(matrices.rows, inChunk);
    int64_t loadsPerColumn = height / piece;
    Type element = getTensor(results[index]).getElementType();
    for (int64_t first = 0; first < width * loadsPerColumn;
         first += shape.threads) {
      Value load = add(e, thread, e.index(first));
      auto [localColumn, part] = divide(e, load, loadsPerColumn);
      Value down = multiply(e, part, piece);
      auto [chunk, within] = divide(e, down, inChunk);
      Value at =
          add(e, multiply(e, localColumn, height),
              add(e,
                  multiply(
                      e, swizzle(e, chunk, divide(e, localColumn, lanes).first),
                      inChunk),
                  within));
      Value words = vector::LoadOp::create(
          b, VectorType::get({piece}, word), memory, at,
          /*nontemporal=*/false,
          llvm::MaybeAlign(piece * word.getIntOrFloatBitWidth() / 8));
      Value own =
          arith::BitcastOp::create(b, VectorType::get({piece}, element), words);
      Value column = add(e, tile.column, localColumn),
            row = add(e, tile.row, down);
      Value exists = conjunction(b, isBelow(e, column, matrices.columns, width),
                                 isBelow(e, row, matrices.rows, height));
      e.perThread(piece, exists, [&] {
        OffsetSpace &space = e.offsets();
        e.storeResult(
            index, own,
            tile.batch * (matrices.rows * matrices.columns) +
                space.counter(column, matrices.columns, e.depth()) *
                    matrices.rows +
                space.counter(row, matrices.rows / piece, e.depth(), piece) *
                    piece +
                space.lanes(piece));
      });
    }
  }

  KernelSource source;
  const Matrices matrices;
  SmallVector<Value> results;
  FullReductions reductions;
  /// Indices of results: those with the elements of the matrices, as they are
  /// or transposed, and the results of reductions.
  SmallVector<unsigned> plain, transposed, others;
  int64_t lanes;
  GpuShape shape;
  int64_t height = 0, width = 0; ///< Of a tile, in elements.
  int64_t down = 0, across = 0;  ///< Tiles per matrix.
};
} // namespace

std::optional<Matrices>
mlir::binade::findTransposedResults(const KernelSource &source) {
  std::optional<Matrices> matrices;
  int64_t bytes = 0; // Of a tile of all transposed results.
  for (Value result : source.getResults()) {
    std::optional<Matrices> found =
        findTransposedMatrices(result.getDefiningOp());
    if (!found || (matrices && found != matrices))
      continue;
    matrices = found;
    bytes += kThreadsAcross * source.chooseLanes(found->columns) *
             source.shape->threads / kThreadsAcross * kRows *
             getTensor(result).getElementTypeBitWidth() / 8;
  }
  return bytes <= kMaxTileBytes ? matrices : std::nullopt;
}

FailureOr<KernelInfo>
mlir::binade::emitTransposedCopy(const KernelSource &source,
                                 const Matrices &matrices) {
  return TransposedCopyKernel(source, matrices).emit();
}
