//===- SumShards.cpp - Sums over all rows of sharded parameters -----------===//

#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Rules.h"
#include "binade/IR/Shards.h"
#include "binade/Kernels/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SUMSHARDSPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
/// The largest number of elements of a row that is added up at once.
constexpr int64_t kLongRow = 16384;

/// Returns the number of equal parts in which a row is added up: a kernel adds
/// a long row in another order if it is the only one. Nothing divides a prime
/// number.
int64_t countParts(int64_t length) {
  if (length <= kLongRow)
    return 1;
  int64_t least = llvm::divideCeil(length, kLongRow);
  for (int64_t count = least; count < kLongRow; ++count)
    if (length % count == 0)
      return count;
  for (int64_t count = 2; count < std::min(least, kLongRow); ++count)
    if (length % count == 0)
      return count;
  return 1;
}

/// The sums of the rows that this process has, and those of all rows, of which
/// `all` is a placeholder until the ports are added.
struct RowSums {
  std::string name;
  Value own;
  ConstantOp all;
};

/// Expands the updates of one program.
class ShardSummer {
public:
  explicit ShardSummer(func::FuncOp program)
      : program(program), b(program.getLoc(), program.getContext()) {}

  LogicalResult run() {
    SmallVector<OptimizerUpdateOp> updates;
    program.walk([&](OptimizerUpdateOp op) {
      if (op.getPrepareAttr() && isComputedByRows(op.getParameter()))
        updates.push_back(op);
    });
    for (OptimizerUpdateOp op : updates)
      if (failed(expand(op)))
        return failure();
    addPorts();
    return success();
  }

private:
  LogicalResult expand(OptimizerUpdateOp op) {
    parameter = op.getParameter();
    name = getArgument(program, cast<BlockArgument>(parameter).getArgNumber())
               ->name.str();
    wrong.clear();
    count = 0;
    Operation *before = op->getPrevNode();
    b.setInsertionPoint(op);
    b.setLoc(op.getLoc());
    SmallVector<Value> results = decomposeUpdate(
        b, op, [&](Operation *reduction) { return sum(reduction); });
    for (Operation *made = before ? before->getNextNode()
                                  : &op->getBlock()->front();
         made != op; made = made->getNextNode()) {
      if (!made->hasTrait<OpTrait::ConstantLike>())
        setPhase(made, getPhase(op));
      auto kernel = dyn_cast<KernelOpInterface>(made);
      if (getWholeRows(parameter) && kernel &&
          kernel.getSchedule() == Schedule::Library)
        refuse("computes products with it");
    }
    op->replaceAllUsesWith(results);
    std::string rule = op.getOptimizer().str();
    Location loc = op.getLoc();
    op->erase();
    if (wrong.empty())
      return success();
    return mlir::emitError(loc)
           << "parameter '" << name
           << "' is sharded, and the update rule needs the whole: '" << rule
           << "' " << wrong;
  }

  /// Notes the first reason why a shard is not enough.
  void refuse(StringRef why) {
    if (wrong.empty())
      wrong = why.str();
  }

  /// Returns the result of a reduction over all elements of a tensor whose
  /// first axis are the rows, or of which each row has equally many.
  Value sum(Operation *reduction) {
    Value x = reduction->getOperand(0);
    bool isMean = isa<ReduceMeanOp>(reduction);
    std::optional<int64_t> whole = getWholeRows(parameter);
    auto result = cast<RankedTensorType>(reduction->getResult(0).getType());
    if (result.getRank() > 0 || (!isMean && !isa<ReduceSumOp>(reduction))) {
      if (whole)
        refuse("combines its rows in another way than by a sum");
      return reduction->getResult(0);
    }
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(parameter.getType()).getShape();
    int64_t rows = shape.empty() ? 1 : shape.front();
    int64_t length =
        cast<RankedTensorType>(x.getType()).getNumElements() / rows;
    Value sums = sumRows(x, rows, length);
    Value all = whole ? exchange(sums, *whole) : sums;
    Value total = ReduceSumOp::create(b, all, ArrayRef<int64_t>{0});
    if (isMean) {
      auto elements = static_cast<double>(whole.value_or(rows) * length);
      total = DivOp::create(b, total, buildSplat(b, total.getType(), elements));
    }
    reduction->erase();
    return total;
  }

  /// Returns the sum of each row.
  Value sumRows(Value x, int64_t rows, int64_t length) {
    if (length == 1)
      return buildReshape(b, x, {rows});
    int64_t parts = countParts(length);
    Value sums = ReduceSumOp::create(
        b, buildReshape(b, x, {rows * parts, length / parts}), {1});
    if (parts == 1)
      return sums;
    return ReduceSumOp::create(b, buildReshape(b, sums, {rows, parts}), {1});
  }

  /// Returns the sums of all `whole` rows.
  Value exchange(Value own, int64_t whole) {
    SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    if (succeeded(getBackwardSlice(own, &slice, options)))
      for (RowSums &other : exchanged)
        if (slice.contains(other.all))
          refuse("computes sums that depend on each other");
    auto type = cast<RankedTensorType>(own.getType()).clone({whole});
    auto placeholder =
        ConstantOp::create(b, type, cast<TypedAttr>(b.getZeroAttr(type)));
    exchanged.push_back(
        {name + "/" + std::to_string(count++), own, placeholder});
    return placeholder;
  }

  void addPorts() {
    SmallVector<NewArgument> arguments;
    for (RowSums &sums : exchanged) {
      arguments.push_back({(kRowSums + sums.name).str(), sums.own.getType(),
                           sums.own.getLoc(), Attribute()});
      arguments.push_back({(kAllRowSums + sums.name).str(), sums.all.getType(),
                           sums.own.getLoc(), Attribute()});
    }
    SmallVector<Value> values = addArguments(program, Role::Buffer, arguments);
    SmallVector<NewResult> results;
    for (auto [index, sums] : llvm::enumerate(exchanged)) {
      results.push_back({Role::Buffer, (kRowSums + sums.name).str(), sums.own});
      sums.all.getResult().replaceAllUsesWith(values[2 * index + 1]);
      sums.all.erase();
    }
    addResults(program, results);
  }

  func::FuncOp program;
  ImplicitLocOpBuilder b;
  // Of the update that is expanded.
  Value parameter;
  std::string name, wrong;
  unsigned count = 0;

  SmallVector<RowSums> exchanged;
};

struct SumShardsPass : impl::SumShardsPassBase<SumShardsPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      if (failed(ShardSummer(program).run()))
        return signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
