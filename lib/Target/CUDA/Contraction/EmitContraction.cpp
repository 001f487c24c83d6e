//===- EmitContraction.cpp - Contractions as kernels ----------------------===//
//
// Emits the matmuls and convolutions that no library computes, or for which
// none is installed. A block of threads has a tile of the result and iterates
// over both operands in steps along the contracted axis. While one step is
// multiplied from shared memory, the next one is loaded from global memory, in
// accesses of 16 bytes where strides permit. With split-K, a block has only a
// part of the steps, and a second kernel adds the partial sums.
//
//===----------------------------------------------------------------------===//

#include "../EmitText.h"
#include "Epilogue.h"
#include "Fetch.h"
#include "TileScales.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Emits the kernel of a contraction.
class ContractionEmitter {
public:
  ContractionEmitter(ImplicitLocOpBuilder &b, const Contraction &contraction)
      : b(b), at{b}, contraction(contraction),
        tiling(chooseTiling(contraction)),
        math(tiling.usesMatrixUnits() ? createMmaTile(at, tiling)
                                      : createFmaTile(at, tiling)),
        element(getElementType(b.getContext(), tiling.format)),
        rows{contraction.m, tiling.rowTiles * tiling.rows},
        columns{contraction.n, tiling.columnTiles * tiling.columns},
        terms{contraction.k, tiling.steps * tiling.step} {}

  void emit(StringRef name);

private:
  /// The elements of one step, on their way from global to shared memory.
  struct Fetched {
    SmallVector<Value> lhs, rhs;
  };

  void allocate(gpu::GPUFuncOp kernel);
  Value findTile();
  Value findSteps(Value split);
  Fetched fetch(Value step) const;
  void storeStep(const Fetched &fetched, Value stage) const;
  SmallVector<Value> sumSteps(Value steps);
  SmallVector<Value> sumBetween(Value begin, Value end, Value last) const;
  SmallVector<Value> addScaled(ValueRange totals, ValueRange sums, Value term);
  void store(const Results &results, ValueRange sums) const;
  void storeParts(Value split, ValueRange sums);

  ImplicitLocOpBuilder &b;
  Indices at;
  const Contraction &contraction;
  Tiling tiling;
  std::unique_ptr<TileMath> math;
  Type element;
  Extent rows, columns, terms;
  ContractionMemory memory;
  Value batch, firstRow, firstColumn, firstStep;
  std::optional<Fetch> lhs, rhs;
};
} // namespace

/// Allocates one shared memory for both tiles.
void ContractionEmitter::allocate(gpu::GPUFuncOp kernel) {
  rhs->tile.first = 2 * lhs->tile.elements;
  auto space =
      gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({rhs->tile.first + 2 * rhs->tile.elements},
                              element, MemRefLayoutAttrInterface(), space);
  lhs->tile.memory = rhs->tile.memory =
      kernel.addWorkgroupAttribution(type, b.getLoc());
}

/// Returns `totals` plus `sums` times their scales. `term` is the first term of
/// the sums.
SmallVector<Value> ContractionEmitter::addScaled(ValueRange totals,
                                                 ValueRange sums, Value term) {
  TileScales left(at, *contraction.lhsScale, memory.lhsScale, firstRow, rows,
                  tiling.rows, contraction.k, term),
      right(at, *contraction.rhsScale, memory.rhsScale, firstColumn, columns,
            tiling.columns, contraction.k, term);
  SmallVector<Value> scaled;
  math->forEach(sums, [&](Value row, Value column, ValueRange own) {
    for (auto [i, sum] : llvm::enumerate(own)) {
      Value once = arith::MulFOp::create(b, sum, left.load(row, 0));
      scaled.push_back(math::FmaOp::create(
          b, once, right.load(column, int64_t(i)), totals[scaled.size()]));
    }
  });
  return scaled;
}

ContractionEmitter::Fetched ContractionEmitter::fetch(Value step) const {
  Value first = at.scale(at.add(firstStep, step), tiling.step);
  SmallVector<Value> left = lhs->load(first);
  return {std::move(left), rhs->load(first)};
}

void ContractionEmitter::storeStep(const Fetched &fetched, Value stage) const {
  lhs->store(fetched.lhs, lhs->tile.findStage(at, stage));
  rhs->store(fetched.rhs, rhs->tile.findStage(at, stage));
}

/// Returns sums over the steps [begin, end). The first one must be in shared
/// memory; afterwards step `end` is, unless it is greater than `last`.
SmallVector<Value> ContractionEmitter::sumBetween(Value begin, Value end,
                                                  Value last) const {
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  SmallVector<Value> zeros(math->countSums(), zero);
  auto loop = scf::ForOp::create(b, begin, end, at.constant(1), zeros);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value step = loop.getInductionVar();
  // After the last step, it is loaded again and not used.
  Value next = arith::MinUIOp::create(b, at.add(step, 1), last);
  Fetched fetched = fetch(next);
  Value stage = at.divide(step, 2).second;
  SmallVector<Value> sums =
      math->multiply(lhs->tile, lhs->tile.findStage(at, stage), rhs->tile,
                     rhs->tile.findStage(at, stage), loop.getRegionIterArgs());
  storeStep(fetched, at.divide(at.add(step, 1), 2).second);
  gpu::BarrierOp::create(b);
  scf::YieldOp::create(b, sums);
  return llvm::to_vector_of<Value>(loop.getResults());
}

/// Returns sums over `steps` steps; those of each `scaledSteps` steps are
/// multiplied by their scales.
SmallVector<Value> ContractionEmitter::sumSteps(Value steps) {
  Value last = arith::SubIOp::create(b, steps, at.constant(1));
  storeStep(fetch(at.constant(0)), at.constant(0));
  gpu::BarrierOp::create(b);
  if (contraction.scaledTerms == 0)
    return sumBetween(at.constant(0), steps, last);
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  SmallVector<Value> zeros(math->countSums(), zero);
  auto loop = scf::ForOp::create(b, at.constant(0), steps,
                                 at.constant(tiling.scaledSteps), zeros);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value begin = loop.getInductionVar(),
        end =
            arith::MinUIOp::create(b, at.add(begin, tiling.scaledSteps), steps);
  SmallVector<Value> sums = sumBetween(begin, end, last);
  Value term = at.scale(at.add(firstStep, begin), tiling.step);
  scf::YieldOp::create(b, addScaled(loop.getRegionIterArgs(), sums, term));
  return llvm::to_vector_of<Value>(loop.getResults());
}

void ContractionEmitter::store(const Results &results, ValueRange sums) const {
  math->forEach(sums, [&](Value row, Value column, ValueRange own) {
    results.store(at.add(firstRow, row), at.add(firstColumn, column), own);
  });
}

void ContractionEmitter::storeParts(Value split, ValueRange sums) {
  // Describes the workspace as a result: row after row, for all batch entries
  // of all splits.
  Operand parts;
  parts.alignment = 16;
  parts.entries = {{contraction.m, contraction.n}};
  parts.terms = {{contraction.n, 1}};
  parts.batch = {contraction.m * contraction.n};
  Contraction plain;
  plain.batch = {tiling.splits * contraction.countBatches()};
  plain.m = contraction.m;
  plain.n = contraction.n;
  plain.out = parts;
  ContractionMemory into;
  into.out = memory.workspace;
  store(Results(at, plain, into,
                at.add(at.scale(split, contraction.countBatches()), batch),
                rows, columns),
        sums);
}

/// Computes the tile of this block, and returns its split.
Value ContractionEmitter::findTile() {
  auto [outer, within] = at.divide(gpu::BlockIdOp::create(b, gpu::Dimension::x),
                                   tiling.rowTiles * tiling.columnTiles);
  auto [number, split] = at.divide(outer, tiling.splits);
  auto [rowTile, columnTile] = at.divide(within, tiling.columnTiles);
  batch = number;
  firstRow = at.scale(rowTile, tiling.rows);
  firstColumn = at.scale(columnTile, tiling.columns);
  return split;
}

/// Sets the first step of a split and returns the number of its steps.
Value ContractionEmitter::findSteps(Value split) {
  firstStep = at.scale(split, tiling.splitSteps);
  Value steps = at.constant(tiling.splitSteps);
  if (tiling.steps % tiling.splitSteps == 0)
    return steps;
  return arith::MinUIOp::create(
      b, steps, arith::SubIOp::create(b, at.constant(tiling.steps), firstStep));
}

void ContractionEmitter::emit(StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  int64_t blocks = contraction.countBatches() * tiling.splits *
                   tiling.rowTiles * tiling.columnTiles;
  gpu::GPUFuncOp kernel = createContractionKernel(
      b, name, contraction, tiling, blocks, tiling.threads, memory);
  lhs.emplace(at, contraction.lhs, *math, tiling, tiling.rows, element);
  rhs.emplace(at, contraction.rhs, *math, tiling, tiling.columns, element);
  allocate(kernel);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Value split = findTile();
  auto findOwn = [&](const Operand &operand, Value memory, Extent entries) {
    return Gather(at, operand, memory,
                  findStart(at, batch, contraction.batch, operand.batch),
                  entries, terms);
  };
  Gather left = findOwn(contraction.lhs, memory.lhs, rows),
         right = findOwn(contraction.rhs, memory.rhs, columns);
  lhs->start(thread, firstRow, left);
  rhs->start(thread, firstColumn, right);
  math->start(thread);
  SmallVector<Value> sums = sumSteps(findSteps(split));
  if (tiling.splits > 1)
    storeParts(split, sums);
  else
    store(Results(at, contraction, memory, batch, rows, columns), sums);
  gpu::ReturnOp::create(b);
}

static std::string print(const Contraction &contraction, StringRef name) {
  return printKernelModule([&](ImplicitLocOpBuilder &b) {
    ContractionEmitter(b, contraction).emit(name);
    Tiling tiling = chooseTiling(contraction);
    if (tiling.splits > 1)
      emitFinish(b, name.split('.').first.str() + ".finish", contraction,
                 tiling);
  });
}

std::string mlir::binade::printMatmul(const GpuMatmul &product,
                                      StringRef name) {
  return print(getContraction(product), name);
}

std::string mlir::binade::printConvolution(const GpuConvolution &convolution,
                                           StringRef name) {
  return print(getContraction(convolution), name);
}
