//===- IndexRanges.cpp - which integers an input may hold -----------------===//

#include "IndexRanges.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::binade;

/// What both accept.
static IndexRange intersect(const IndexRange &l, const IndexRange &r) {
  IndexRange both = {std::max(l.low, r.low), std::min(l.high, r.high),
                     std::nullopt};
  if (l.ignored == r.ignored)
    both.ignored = l.ignored;
  return both;
}

namespace {
/// A kernel of a launch, and which of the launch's results are its own.
struct Segment {
  LaunchOp launch;
  unsigned firstResult = 0;
};

class Uses {
public:
  /// Collects what the users of `value` accept; inside a kernel, `segment` is
  /// where it was called.
  void visit(Value value, Segment segment = {}) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto launch = dyn_cast<LaunchOp>(user))
        enter(launch, use.getOperandNumber());
      else if (auto tile = dyn_cast<TileOp>(user))
        visit(tile.getBody().getArgument(use.getOperandNumber()));
      else if (isa<func::ReturnOp>(user) && segment.launch)
        visit(segment.launch.getResult(segment.firstResult +
                                       use.getOperandNumber()));
      else if (auto op = dyn_cast<KernelOpInterface>(user))
        visit(op, use.getOperandNumber(), segment);
    }
  }

  std::optional<IndexRange> range;

private:
  void visit(KernelOpInterface op, unsigned operand, Segment segment) {
    if (std::optional<IndexRange> own = op.getIndexRange(operand))
      range = range ? intersect(*range, *own) : own;
    if (operand == 0 && op.keepsIntegers())
      visit(op->getResult(0), segment);
  }

  void enter(LaunchOp launch, unsigned operand) {
    Segment segment = {launch};
    for (auto symbol : launch.getKernels().getAsRange<FlatSymbolRefAttr>()) {
      auto kernel =
          SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(launch, symbol);
      if (operand < kernel.getNumArguments())
        return visit(kernel.getArgument(operand), segment);
      operand -= kernel.getNumArguments();
      segment.firstResult += kernel.getNumResults();
    }
  }
};
} // namespace

std::optional<IndexRange> mlir::binade::findIndexRange(Value input) {
  Uses uses;
  uses.visit(input);
  if (uses.range && uses.range->low >= uses.range->high)
    return std::nullopt;
  return uses.range;
}
