//===- InPlace.cpp - Results that may overwrite operands ------------------===//

#include "Schedules.h"

using namespace mlir;
using namespace mlir::binade;

/// Name of the LLVM dialect's attribute, whose header takes seconds to compile.
static constexpr StringLiteral kNoAliasAttr = "llvm.noalias";

/// Whether every element is read before it is written, and by the same work
/// item. On a GPU this excludes values with one element per row, which all
/// threads of the row read in no particular order, and values that several
/// teams of threads read because there are fewer items than teams.
static bool mayOverwrite(ArrayRef<Access> loads, ArrayRef<Access> stores,
                         const Emitter &emitter) {
  if (stores.size() != 1 || stores.front().place == Access::Place::Other)
    return false;
  bool isOfRow = stores.front().place == Access::Place::Row;
  if (emitter.isOnGpu() && !loads.empty() &&
      (isOfRow || emitter.repeatsItems()))
    return false;
  return llvm::all_of(loads, [&](Access load) {
    return load.place == stores.front().place &&
           load.pass <= stores.front().pass;
  });
}

void mlir::binade::setInPlace(Emitter &emitter, KernelInfo &info,
                              const Emitter *finish) {
  func::FuncOp kernel = emitter.source();
  FunctionOpInterface function = emitter.function();
  unsigned operands = kernel.getNumArguments();
  llvm::SmallDenseSet<unsigned> shared;
  for (unsigned result = 0; result < kernel.getNumResults(); ++result) {
    SmallVector<unsigned> &may = info.inPlace.emplace_back();
    for (unsigned operand = 0; operand < operands; ++operand) {
      bool sameType = emitter.buffer(operand).getType() ==
                      emitter.resultBuffer(result).getType();
      bool readLate = finish && finish->getLoads().contains(operand);
      if (!sameType || readLate ||
          (!emitter.isAllowedInPlace(operand, result) &&
           !mayOverwrite(emitter.getLoads().lookup(operand),
                         emitter.getStores().lookup(result), emitter)))
        continue;
      may.push_back(operand);
      shared.insert(operand);
      shared.insert(operands + result);
    }
  }
  for (auto [index, buffer] : llvm::enumerate(emitter.buffers()))
    if (auto argument = dyn_cast<BlockArgument>(buffer);
        argument && !shared.contains(index))
      function.setArgAttr(argument.getArgNumber(), kNoAliasAttr,
                          UnitAttr::get(kernel.getContext()));
}
