//===- NarrowFloatsToBits.cpp - hold narrow floats as integers ------------===//

#include "binade/Target/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"

namespace mlir::binade {
#define GEN_PASS_DEF_NARROWFLOATSTOBITSPASS
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

struct NarrowFloatsToBitsPass
    : impl::NarrowFloatsToBitsPassBase<NarrowFloatsToBitsPass> {
  void runOnOperation() override {
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
    // Casts know which format their bits have: ask before it is gone.
    SmallVector<std::pair<Operation *, Type>> casts;
    getOperation().walk([&](Operation *op) {
      if (isa<arith::ExtFOp>(op) &&
          isNarrow(getElementTypeOrSelf(op->getOperand(0))))
        casts.push_back({op, op->getOperand(0).getType()});
      if (isa<arith::TruncFOp>(op) &&
          isNarrow(getElementTypeOrSelf(op->getResult(0))))
        casts.push_back({op, op->getResult(0).getType()});
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    for (auto [op, type] : casts) {
      OpBuilder b(op);
      if (isa<arith::ExtFOp>(op)) {
        Value x =
            arith::BitcastOp::create(b, op->getLoc(), type, op->getOperand(0));
        op->setOperand(0, x);
        continue;
      }
      Value y = op->getResult(0);
      Type held = withElement(type, getBits(getElementTypeOrSelf(type)));
      y.setType(type);
      b.setInsertionPointAfter(op);
      auto pattern = arith::BitcastOp::create(b, op->getLoc(), held, y);
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
