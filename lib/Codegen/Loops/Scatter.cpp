//===- Scatter.cpp - Scatter-add of rows by index -------------------------===//
//
// A work item has a block of the table: it clears the block, iterates over all
// indices in order and adds the rows that belong to it. No two work items share
// an element, so that the result has the same bits with any number of threads.
// Most blocks of a large vocabulary get no row. Thus 16 indices at a time are
// compared with the block's range, and only if one is inside are they handled
// one by one. Rows of narrow floats are added in f32, in memory of the work
// item; rows that got any are then rounded into the table.
//
// A GPU sorts the indices instead (GpuScatter.cpp).
//
//===----------------------------------------------------------------------===//

#include "GpuScatter.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Elements per block: sums of narrow floats are kept on the stack.
static constexpr int64_t kBlockElements = 32768;
/// Columns of a block that has all rows of the table, and of any other block.
static constexpr int64_t kNarrowBlock = 64, kWideBlock = 1024;

namespace {
/// Emits a kernel that adds rows of a gradient to a table on a CPU.
class ScatterKernel {
public:
  ScatterKernel(const KernelSource &source, GatherGradOp op)
      : source(source), op(op), table(getTensor(op.getDtable())),
        tokens(getTensor(op.getIndices()).getNumElements()) {
    rows = table.getDimSize(0);
    width = ShapedType::getNumElements(table.getShape().drop_front());
    bool isSmall = rows * kNarrowBlock <= kBlockElements;
    blockColumns =
        std::clamp<int64_t>(width, 1, isSmall ? kNarrowBlock : kWideBlock);
    blockRows = std::clamp<int64_t>(kBlockElements / blockColumns, 1,
                                    std::max<int64_t>(rows, 1));
    columnBlocks = llvm::divideCeil(width, blockColumns);
  }

  FailureOr<KernelInfo> emit() {
    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = llvm::divideCeil(rows, blockRows) * columnBlocks;
    info.hasStatus = true;
    info.workspaceBytes = kStatusBytes;
    emitter.emplace(source.function, source.formulas, source.into,
                    source.symbol + ".items",
                    TypeRange(source.getBuffers(info.workspaceBytes)), 2);
    if (info.extent > 0)
      emitter->forItems(info.extent,
                        [&](const Offset &item) { emitItem(item); });
    setInPlace(*emitter, info);
    if (failed(emitter->status()))
      return failure();
    return info;
  }

private:
  //===--------------------------------------------------------------------===//
  // Loops
  //===--------------------------------------------------------------------===//

  /// Emits a loop over [begin, end), with end <= `extent`.
  void loop(Value begin, Value end, int64_t extent,
            llvm::function_ref<void(const Offset &)> body) {
    Emitter &e = *emitter;
    e.loop(begin, end, 1, {}, [&](Value counter, ValueRange) {
      body(e.offsets().counter(counter, extent, e.depth()));
      return SmallVector<Value>();
    });
  }

  void forColumns(int64_t count,
                  llvm::function_ref<void(const Offset &)> body) {
    emitter->columns(count, {}, [&](const Offset &column, ValueRange) {
      body(column);
      return SmallVector<Value>();
    });
  }

  void when(Value condition, llvm::function_ref<void()> body) {
    emitter->conditional(condition, {}, [&] {
      body();
      return SmallVector<Value>();
    });
  }

  Value is(arith::CmpIPredicate predicate, Value lhs, Value rhs) {
    return arith::CmpIOp::create(emitter->builder(), predicate, lhs, rhs);
  }

  //===--------------------------------------------------------------------===//
  // Work items
  //===--------------------------------------------------------------------===//

  /// The part of the table that a work item has.
  struct Block {
    Offset firstRow, firstColumn;
    Value rowCount;
    int64_t columns;
  };

  void emitItem(const Offset &item) {
    Emitter &e = *emitter;
    auto [rowBlock, columnBlock] =
        e.offsets().divide(item, columnBlocks).asPair();
    using Is = arith::CmpIPredicate;
    when(is(Is::eq, e.number(item), e.index(0)), [&] { reportIndices(); });
    Block block = {rowBlock * blockRows, columnBlock * blockColumns, Value(),
                   blockColumns};
    Value left = arith::SubIOp::create(e.builder(), e.index(rows),
                                       e.number(block.firstRow));
    block.rowCount =
        arith::MinUIOp::create(e.builder(), left, e.index(blockRows));
    int64_t tail = width % blockColumns;
    if (tail == 0)
      return emitBlock(block);
    Value last = e.index(columnBlocks - 1), column = e.number(columnBlock);
    when(is(Is::ne, column, last), [&] { emitBlock(block); });
    block.columns = tail;
    when(is(Is::eq, column, last), [&] { emitBlock(block); });
  }

  void emitBlock(const Block &block) {
    Emitter &e = *emitter;
    Type element = table.getElementType();
    forRows(block, [&](const Offset &row) {
      forColumns(block.columns, [&](const Offset &column) {
        e.store(e.resultBuffer(0), zero(element), getPlace(block, row, column));
      });
    });
    if (!isSummedInPlace())
      forRows(block, [&](const Offset &row) {
        e.store(getMarks(), zero(e.builder().getI8Type()), row);
      });
    addRows(block);
    if (isSummedInPlace())
      return;
    forRows(block, [&](const Offset &row) {
      when(isMarked(row), [&] {
        forColumns(block.columns, [&](const Offset &column) {
          Value sum = e.loadNow(getSums(), getSumPlace(block, row, column));
          e.store(e.resultBuffer(0), e.narrow(sum, element),
                  getPlace(block, row, column));
        });
      });
    });
  }

  void forRows(const Block &block,
               llvm::function_ref<void(const Offset &)> body) {
    loop(emitter->index(0), block.rowCount, blockRows, body);
  }

  //===--------------------------------------------------------------------===//
  // Sums
  //===--------------------------------------------------------------------===//

  Type getSumType() const { return getComputeType(table.getElementType()); }
  bool isSummedInPlace() const {
    return getSumType() == table.getElementType();
  }

  Value getSums() {
    if (isSummedInPlace())
      return emitter->resultBuffer(0);
    if (!sums)
      sums = emitter->allocate(blockRows * blockColumns, getSumType());
    return sums;
  }

  /// Returns a flag for each row, whether it has sums.
  Value getMarks() {
    if (!marks)
      marks = emitter->allocate(blockRows, emitter->builder().getI8Type());
    return marks;
  }
  Value isMarked(const Offset &row) {
    return is(arith::CmpIPredicate::ne, emitter->loadNow(getMarks(), row),
              zero(emitter->builder().getI8Type()));
  }
  void mark(const Block &block, const Offset &row) {
    Emitter &e = *emitter;
    ImplicitLocOpBuilder &b = e.builder();
    Value isNew = arith::XOrIOp::create(b, isMarked(row),
                                        arith::ConstantIntOp::create(b, 1, 1));
    when(isNew, [&] {
      forColumns(block.columns, [&](const Offset &column) {
        storeSum(block, row, column, zero(getSumType()));
      });
      e.store(getMarks(), arith::ConstantIntOp::create(b, 1, 8), row);
    });
  }

  Value zero(Type element) {
    ImplicitLocOpBuilder &b = emitter->builder();
    return arith::ConstantOp::create(b, b.getZeroAttr(element));
  }

  /// Returns the offset in the table of an element of the block.
  Offset getPlace(const Block &block, const Offset &row,
                  const Offset &column) const {
    return (block.firstRow + row) * width + block.firstColumn + column;
  }
  Offset getSumPlace(const Block &block, const Offset &row,
                     const Offset &column) const {
    return isSummedInPlace() ? getPlace(block, row, column)
                             : row * blockColumns + column;
  }
  void storeSum(const Block &block, const Offset &row, const Offset &column,
                Value sum) {
    emitter->store(getSums(), sum, getSumPlace(block, row, column));
  }

  //===--------------------------------------------------------------------===//
  // Indices
  //===--------------------------------------------------------------------===//

  /// Returns the index `token` or, with lanes, several.
  Value pullIndex(const Offset &token) {
    Emitter &e = *emitter;
    Value value = e.pull(op.getIndices(), token).value;
    Type type = e.builder().getIndexType();
    if (token.variesOverLanes()) {
      value = e.broadcast(value);
      type = cast<VectorType>(value.getType()).clone(type);
    }
    return arith::IndexCastOp::create(e.builder(), type, value);
  }

  void reportIndices() {
    forColumns(tokens, [&](const Offset &token) {
      emitter->checkIndex(pullIndex(token), rows);
    });
  }

  /// Returns the row in the block that `token` belongs to, and whether the
  /// block contains it.
  std::pair<Value, Value> findRow(const Block &block, const Offset &token) {
    Emitter &e = *emitter;
    ImplicitLocOpBuilder &b = e.builder();
    Value index = pullIndex(token);
    bool isVector = isa<VectorType>(index.getType());
    auto like = [&](Value x) { return isVector ? e.broadcast(x) : x; };
    using Is = arith::CmpIPredicate;
    Value fromEnd = arith::AddIOp::create(b, index, like(e.index(rows)));
    index = arith::SelectOp::create(b, is(Is::slt, index, like(e.index(0))),
                                    fromEnd, index);
    Value row = arith::SubIOp::create(b, index, like(e.number(block.firstRow)));
    return {row, is(Is::ult, row, like(block.rowCount))};
  }

  void addRows(const Block &block) {
    Emitter &e = *emitter;
    auto addOneByOne = [&](const Offset &first, int64_t count) {
      loop(e.index(0), e.index(count), count,
           [&](const Offset &token) { addRow(block, first + token); });
    };
    bool hasAllRows = blockRows == rows;
    int64_t whole = hasAllRows ? 0 : tokens / kLanes;
    loop(e.index(0), e.index(whole), whole, [&](const Offset &group) {
      Offset first = group * kLanes;
      ImplicitLocOpBuilder &b = e.builder();
      Value none = arith::ConstantIntOp::create(b, 0, 1);
      Value any = e.columns(kLanes, none, [&](const Offset &lanes, ValueRange) {
                     Value inside =
                         e.broadcast(findRow(block, first + lanes).second);
                     return SmallVector<Value>{vector::ReductionOp::create(
                         b, vector::CombiningKind::OR, inside)};
                   }).front();
      when(any, [&] { addOneByOne(first, kLanes); });
    });
    addOneByOne(whole * kLanes, tokens - whole * kLanes);
  }

  void addRow(const Block &block, const Offset &token) {
    Value isInside = findRow(block, token).second;
    when(isInside, [&] { addTerm(block, token); });
  }

  /// Adds the row of the gradient of `token`, which belongs to the block.
  void addTerm(const Block &block, const Offset &token) {
    Emitter &e = *emitter;
    Value found = findRow(block, token).first;
    Offset row =
        e.offsets().loaded(found, blockRows, e.depth(), /*perLane=*/false);
    if (!isSummedInPlace())
      mark(block, row);
    forColumns(block.columns, [&](const Offset &column) {
      Offset from = token * width + block.firstColumn + column;
      Value term = e.widen(e.pull(op.getGradient(), from).value);
      if (column.variesOverLanes())
        term = e.broadcast(term);
      Value sum = e.loadNow(getSums(), getSumPlace(block, row, column));
      sum = arith::AddFOp::create(e.builder(), sum, term);
      storeSum(block, row, column, sum);
    });
  }

  KernelSource source;
  GatherGradOp op;
  RankedTensorType table;
  int64_t tokens, rows, width;
  int64_t blockRows, blockColumns, columnBlocks;
  std::optional<Emitter> emitter;
  Value sums, marks;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitScatter(const KernelSource &source) {
  SmallVector<Value> results = source.getResults();
  auto op = results.size() == 1 ? results.front().getDefiningOp<GatherGradOp>()
                                : nullptr;
  func::FuncOp function = source.function;
  if (!op)
    return function.emitError("kernel '@")
           << function.getName()
           << "' must have the result of binade.gather_grad as its only result";
  if (!source.shape)
    return ScatterKernel(source, op).emit();
  return getTensor(op.getDtable()).getNumElements() == 0
             ? emitNothing(source)
             : emitGpuScatter(source, op);
}
