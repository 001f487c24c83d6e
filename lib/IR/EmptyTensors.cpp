//===- EmptyTensors.cpp - Tensors with an axis of length 0 ----------------===//

#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

bool mlir::binade::hasNoElements(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && llvm::is_contained(tensor.getShape(), 0);
}

SmallVector<Value> mlir::binade::dropEmpty(ValueRange operands) {
  SmallVector<Value> kept(operands);
  llvm::erase_if(kept, [](Value x) { return hasNoElements(x.getType()); });
  return kept;
}

SmallVector<Value> mlir::binade::buildZeros(ImplicitLocOpBuilder &b,
                                            TypeRange types) {
  return llvm::map_to_vector(
      types, [&](Type type) { return buildSplat(b, type, 0.0); });
}

Value mlir::binade::buildEmptyContraction(ImplicitLocOpBuilder &b, Value bias,
                                          RankedTensorType type, int64_t axis) {
  if (!bias)
    return buildSplat(b, type, 0.0);
  Value rounded = buildCast(b, bias, type.getElementType());
  return buildBroadcast(b, rounded, {axis}, type.getShape());
}
