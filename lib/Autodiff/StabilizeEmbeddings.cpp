//===- StabilizeEmbeddings.cpp - Norms after embeddings -------------------===//

#include "binade/Autodiff/Passes.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/MissingFunction.h"
#include "binade/IR/Names.h"
#include <cmath>

namespace mlir::binade {
#define GEN_PASS_DEF_STABILIZEEMBEDDINGSPASS
#include "binade/Autodiff/Passes.h.inc"

namespace {
/// PyTorch's default, which bitsandbytes uses.
constexpr double kEpsilon = 1e-5;

class Stabilizer {
public:
  explicit Stabilizer(func::FuncOp function)
      : function(function), b(function.getLoc(), function.getContext()) {}

  LogicalResult run() {
    // Iterates over tables in the order of parameters: a table that is looked
    // up twice has one norm.
    for (const Port &port : getArguments(function, Role::Parameter)) {
      Value table = function.getArgument(port.index);
      SmallVector<GatherOp> lookups;
      for (Operation *user : table.getUsers())
        if (auto gather = dyn_cast<GatherOp>(user);
            gather && isLookup(gather, table))
          lookups.push_back(gather);
      if (!lookups.empty())
        tables.push_back({port.name.str(), table, lookups});
    }
    if (tables.empty())
      return function.emitError("has no embedding: no row of a parameter is "
                                "looked up by indices from a batch; leave the "
                                "stable embedding out");
    for (const Table &table : tables)
      if (failed(stabilize(table)))
        return failure();
    return success();
  }

private:
  struct Table {
    std::string name;
    Value value;
    SmallVector<GatherOp> lookups;
  };

  /// Whether `gather` reads rows of `table` by indices from a batch. Positions
  /// are the same for all batches.
  bool isLookup(GatherOp gather, Value table) {
    return gather.getTable() == table &&
           cast<RankedTensorType>(table.getType()).getRank() == 2 &&
           dependsOnBatch(gather.getIndices());
  }

  bool dependsOnBatch(Value value) {
    DenseSet<Value> seen;
    SmallVector<Value> pending = {value};
    while (!pending.empty()) {
      Value next = pending.pop_back_val();
      if (!seen.insert(next).second)
        continue;
      if (auto argument = dyn_cast<BlockArgument>(next)) {
        std::optional<Port> port =
            getArgument(function, argument.getArgNumber());
        if (port && port->role == Role::Batch)
          return true;
      } else {
        llvm::append_range(pending, next.getDefiningOp()->getOperands());
      }
    }
    return false;
  }

  LogicalResult stabilize(const Table &table) {
    std::string name = getEmbeddingNorm(table.name);
    Location location = NameLoc::get(b.getStringAttr(name));
    auto type = cast<RankedTensorType>(table.value.getType());
    auto row = RankedTensorType::get(type.getShape().back(), b.getF32Type());
    SmallVector<NewArgument> arguments;
    for (auto [suffix, start] : {std::pair(".weight", 1.0f), {".bias", 0.0f}}) {
      if (findArgument(function, Role::Parameter, name + suffix))
        return function.emitError("already has a parameter '")
               << name << suffix << "': its embedding is stable";
      arguments.push_back(
          {name + suffix, row, location, DenseElementsAttr::get(row, start)});
    }
    SmallVector<Value> affine =
        addArguments(function, Role::Parameter, arguments);
    for (GatherOp lookup : table.lookups) {
      b.setLoc(location);
      b.setInsertionPointAfter(lookup);
      Value rows = lookup.getY();
      Value wide = buildCast(b, rows, b.getF32Type());
      auto norm = LayerNormOp::create(b, wide, affine[0], affine[1],
                                      APFloat(kEpsilon), PrecisionAttr());
      Value stable =
          buildCast(b, norm.getY(), getElementTypeOrSelf(rows.getType()));
      rows.replaceUsesWithIf(stable, [&](OpOperand &use) {
        return use.getOwner() != norm && use.getOwner() != wide.getDefiningOp();
      });
    }
    drawXavier(cast<BlockArgument>(table.value));
    return success();
  }

  /// Draws random weights from the Xavier uniform distribution (Glorot &
  /// Bengio, 2010); given weights stay.
  void drawXavier(BlockArgument table) {
    unsigned index = table.getArgNumber();
    if (!function.getArgAttrOfType<RandomAttr>(index, kInitAttr))
      return;
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(table.getType()).getShape();
    double bound = std::sqrt(6.0 / static_cast<double>(shape[0] + shape[1]));
    function.setArgAttr(index, kInitAttr,
                        RandomAttr::get(b.getContext(),
                                        b.getStringAttr("uniform"),
                                        b.getF64FloatAttr(-bound),
                                        b.getF64FloatAttr(2.0 * bound)));
  }

  func::FuncOp function;
  ImplicitLocOpBuilder b;
  SmallVector<Table> tables;
};

struct StabilizeEmbeddingsPass
    : impl::StabilizeEmbeddingsPassBase<StabilizeEmbeddingsPass> {
  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(kForwardName);
    if (!function) {
      emitMissingFunction(getOperation(), kForwardName,
                          "whose gradients are not built yet");
      return signalPassFailure();
    }
    if (failed(Stabilizer(function).run()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
