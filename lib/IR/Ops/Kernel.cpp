//===- Kernel.cpp - calls of kernels --------------------------------------===//

#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Kernel.cpp.inc"

static bool isScalar(Type type) {
  return cast<RankedTensorType>(type).getRank() == 0;
}

/// Whether `actual` may stand where a kernel has `formal`: a kernel over many
/// tensors has one vector where its launch has tensors of any shape.
static bool fits(Type actual, Type formal, bool overMany) {
  if (!overMany || isScalar(formal))
    return actual == formal;
  return getElementTypeOrSelf(actual) == getElementTypeOrSelf(formal);
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Type> operands, results, shared;
  bool overMany = false;
  for (auto symbol : getKernels().getAsRange<FlatSymbolRefAttr>()) {
    auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, symbol);
    auto schedule =
        kernel ? kernel->getAttrOfType<ScheduleAttr>(kKernelAttr) : nullptr;
    if (!schedule)
      return emitOpError("launches ")
             << symbol << ", which is not a kernel of this module";
    overMany = schedule.getValue() == Schedule::MultiTensor;
    if (!overMany && getKernels().size() != 1)
      return emitOpError("launches several kernels, but ")
             << symbol << " is not one over many tensors";
    llvm::append_range(operands, kernel.getArgumentTypes());
    shared.clear();
    for (Type type : kernel.getResultTypes())
      (overMany && isScalar(type) ? shared : results).push_back(type);
  }
  llvm::append_range(results, shared);
  auto agree = [&](TypeRange actual, ArrayRef<Type> formal) {
    return actual.size() == formal.size() &&
           llvm::all_of(llvm::zip(actual, formal), [&](auto pair) {
             return fits(std::get<0>(pair), std::get<1>(pair), overMany);
           });
  };
  if (agree(getOperandTypes(), operands) && agree(getResultTypes(), results))
    return success();
  return emitOpError("has type (")
         << getOperandTypes() << ") -> (" << getResultTypes()
         << "), its kernels (" << operands << ") -> (" << results << ")";
}
