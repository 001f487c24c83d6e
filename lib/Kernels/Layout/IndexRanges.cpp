//===- IndexRanges.cpp - Allowed integers of inputs -----------------------===//

#include "IndexRanges.h"
#include "../Fusion/Segments.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the integers that both accept.
static IndexRange intersect(const IndexRange &l, const IndexRange &r) {
  IndexRange both = {std::max(l.low, r.low), std::min(l.high, r.high),
                     std::nullopt};
  if (l.ignored == r.ignored)
    both.ignored = l.ignored;
  return both;
}

namespace {
/// Intersects the ranges that the users of a value accept.
class Uses {
public:
  /// Collects the ranges that users of `value` accept. Inside a kernel, `own`
  /// are the launch's results that the kernel computes.
  void visit(Value value, ValueRange own = {}) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto launch = dyn_cast<LaunchOp>(user))
        enter(launch, use.getOperandNumber());
      else if (auto tile = dyn_cast<TileOp>(user))
        for (Block *body : tile.getBodies())
          visit(body->getArgument(use.getOperandNumber()));
      else if (isa<func::ReturnOp>(user) && use.getOperandNumber() < own.size())
        visit(own[use.getOperandNumber()]);
      else if (auto op = dyn_cast<KernelOpInterface>(user))
        visit(op, use.getOperandNumber(), own);
    }
  }

  std::optional<IndexRange> range;

private:
  void visit(KernelOpInterface op, unsigned operand, ValueRange own) {
    if (std::optional<IndexRange> accepted = op.getIndexRange(operand))
      range = range ? intersect(*range, *accepted) : accepted;
    if (operand == 0 && op.keepsIntegers())
      visit(op->getResult(0), own);
  }

  void enter(LaunchOp launch, unsigned operand) {
    LaunchSegment segment = findSegment(launch, operand);
    visit(segment.kernel.getArgument(operand - segment.firstOperand),
          launch->getResults().slice(segment.firstResult, segment.numResults));
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
