//===- BitcastNarrowFloats.cpp - Narrow floats as integers ----------------===//

#include "binade/Codegen/IntegerCasts.h"
#include "binade/IR/Binade.h"
#include "binade/Target/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/IR/AttrTypeSubElements.h"

namespace mlir::binade {
#define GEN_PASS_DEF_BITCASTNARROWFLOATSPASS
#include "binade/Target/Passes.h.inc"

namespace {
bool isNarrow(Type type) {
  auto format = dyn_cast<FloatType>(type);
  return format && format.getWidth() <= 16;
}

Type getBits(Type narrow) {
  return IntegerType::get(narrow.getContext(), narrow.getIntOrFloatBitWidth());
}

Type withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(element);
  return element;
}

struct BitcastNarrowFloatsPass
    : impl::BitcastNarrowFloatsPassBase<BitcastNarrowFloatsPass> {
  void runOnOperation() override {
    WalkResult tensors = getOperation().walk([](Operation *op) {
      return isa_and_nonnull<BinadeDialect>(op->getDialect())
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (tensors.wasInterrupted()) {
      emitError(getOperation().getLoc())
          << "expected loops over memory, without binade ops; run "
             "binade-conversion-pipeline first (for a GPU "
             "binade-gpu-conversion-pipeline)";
      return signalPassFailure();
    }
    splitIntegerCasts(getOperation());
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](FloatType type) -> std::optional<Type> {
      return isNarrow(type) ? getBits(type) : Type(type);
    });
    replacer.addReplacement(
        [&](FloatAttr value)
            -> std::optional<std::pair<Attribute, WalkResult>> {
          Attribute replaced = value;
          if (isNarrow(value.getType()))
            replaced = IntegerAttr::get(getBits(value.getType()),
                                        value.getValue().bitcastToAPInt());
          return std::pair(replaced, WalkResult::skip());
        });
    replacer.addReplacement(
        [&](DenseElementsAttr values)
            -> std::optional<std::pair<Attribute, WalkResult>> {
          Attribute replaced = values;
          if (isNarrow(values.getElementType()))
            replaced = values.bitcast(getBits(values.getElementType()));
          return std::pair(replaced, WalkResult::skip());
        });
    // Casts and matmuls keep their formats: collect them before the types are
    // replaced.
    SmallVector<std::pair<OpOperand *, Type>> reads;
    SmallVector<std::pair<OpResult, Type>> writes;
    getOperation().walk([&](Operation *op) {
      if (!isa<arith::ExtFOp, arith::TruncFOp, nvgpu::MmaSyncOp>(op))
        return;
      for (OpOperand &x : op->getOpOperands())
        if (isNarrow(getElementTypeOrSelf(x.get())))
          reads.push_back({&x, x.get().getType()});
      for (OpResult y : op->getResults())
        if (isNarrow(getElementTypeOrSelf(y)))
          writes.push_back({y, y.getType()});
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    for (auto [x, type] : reads) {
      OpBuilder b(x->getOwner());
      x->set(
          arith::BitcastOp::create(b, x->getOwner()->getLoc(), type, x->get()));
    }
    for (auto [y, type] : writes) {
      OpBuilder b(y.getOwner());
      Type held = withElement(type, getBits(getElementTypeOrSelf(type)));
      y.setType(type);
      b.setInsertionPointAfter(y.getOwner());
      auto pattern = arith::BitcastOp::create(b, y.getLoc(), held, y);
      y.replaceAllUsesExcept(pattern, pattern);
    }
    getOperation().walk([](arith::BitcastOp op) {
      if (op.getIn().getType() != op.getType())
        return;
      op.replaceAllUsesWith(op.getIn());
      op.erase();
    });
  }
};
} // namespace
} // namespace mlir::binade
