//===- Warps.cpp - Communication within a warp ----------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::binade;

void Emitter::perThread(int64_t lanes, llvm::function_ref<void()> body) {
  llvm::SaveAndRestore alone(team.isPerThread, true);
  llvm::SaveAndRestore count(laneCount, lanes);
  body();
}

void Emitter::storing(Value exists, llvm::function_ref<void()> body) {
  llvm::SaveAndRestore has(hasPlace, conjunction(b, hasPlace, exists));
  body();
}

/// A reduction of words over a whole warp is one instruction, which takes as
/// long as one shuffle.
Value Emitter::combineNeighbours(Value own, int64_t count,
                                 vector::CombiningKind kind) {
  if (count == kWarp && own.getType().isInteger(32)) {
    assert((kind == vector::CombiningKind::MAXSI ||
            kind == vector::CombiningKind::MINSI ||
            kind == vector::CombiningKind::ADD ||
            kind == vector::CombiningKind::OR) &&
           "expected a combination that has an instruction");
    auto all = gpu::symbolizeAllReduceOperation(stringifyCombiningKind(kind));
    return gpu::SubgroupReduceOp::create(b, own, *all, /*uniform=*/true);
  }
  for (int64_t distance = count / 2; distance > 0; distance /= 2)
    own = vector::makeArithReduction(
        b, b.getLoc(), kind, own, shuffle(own, static_cast<int32_t>(distance)));
  return own;
}

Value Emitter::readLane(Value own, Value lane) {
  Value number = arith::IndexCastOp::create(b, b.getI32Type(), lane);
  Value width = arith::ConstantIntOp::create(b, kWarp, 32);
  return gpu::ShuffleOp::create(b, own, number, width, gpu::ShuffleMode::IDX)
      .getShuffleResult();
}
