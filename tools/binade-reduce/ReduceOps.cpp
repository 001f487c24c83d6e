//===- ReduceOps.cpp - Shrink a module by delta debugging -----------------===//
//
// Defines a pass that removes ops, functions, results and arguments while a
// test program still reports the failure. Upstream's reduction tree erases ops
// that have users, which leaves modules that cannot be cloned. This pass first
// replaces the results of an op by an operand or zeros. It tries all ops, then
// each half, each quarter, ..., each op, as in delta debugging.
//
//===----------------------------------------------------------------------===//

#include "ReduceOps.h"
#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Reducer/Tester.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Removes up to `count` candidates (ops, functions, results or arguments) from
/// index `begin` on. Returns how many candidates the module had before.
using Reduction =
    llvm::function_ref<size_t(ModuleOp, size_t begin, size_t count)>;

bool isInRange(size_t index, size_t begin, size_t count) {
  return index >= begin && index - begin < count;
}

void eraseDeadOps(ModuleOp module) {
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

SmallVector<Operation *> listOps(ModuleOp module) {
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (isa_and_present<BinadeDialect>(op->getDialect()) &&
        !op->hasTrait<OpTrait::ConstantLike>() && isPure(op))
      ops.push_back(op);
  });
  return ops;
}

/// Replaces each result of the ops by their first operand of the same type.
size_t forwardOperands(ModuleOp module, size_t begin, size_t count) {
  SmallVector<Operation *> ops = listOps(module);
  for (Operation *op : ArrayRef(ops).drop_front(begin).take_front(count))
    for (Value result : op->getResults())
      for (Value operand : op->getOperands())
        if (operand.getType() == result.getType()) {
          result.replaceAllUsesWith(operand);
          break;
        }
  return ops.size();
}

/// Replaces each result of the ops by zeros.
size_t replaceByZeros(ModuleOp module, size_t begin, size_t count) {
  SmallVector<Operation *> ops = listOps(module);
  for (Operation *op : ArrayRef(ops).drop_front(begin).take_front(count)) {
    OpBuilder b(op);
    for (Value result : op->getResults())
      if (TypedAttr zero = b.getZeroAttr(result.getType());
          zero && !result.use_empty())
        result.replaceAllUsesWith(ConstantOp::create(b, op->getLoc(), zero));
  }
  return ops.size();
}

/// Erases functions. The verifier rejects modules that still use their symbols.
size_t eraseFunctions(ModuleOp module, size_t begin, size_t count) {
  size_t index = 0;
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (isInRange(index++, begin, count))
      op.erase();
  return index;
}

size_t eraseResults(ModuleOp module, size_t begin, size_t count) {
  size_t first = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    llvm::BitVector erased(function.getNumResults());
    for (size_t index = 0; index < erased.size(); ++index)
      erased[index] = isInRange(first + index, begin, count);
    first += erased.size();
    function.front().getTerminator()->eraseOperands(erased);
    (void)function.eraseResults(erased);
  }
  return first;
}

size_t eraseArguments(ModuleOp module, size_t begin, size_t count) {
  size_t first = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    llvm::BitVector erased(function.getNumArguments());
    for (BlockArgument argument : function.getArguments())
      erased[argument.getArgNumber()] =
          argument.use_empty() &&
          isInRange(first + argument.getArgNumber(), begin, count);
    first += erased.size();
    (void)function.eraseArguments(erased);
  }
  return first;
}

struct ReduceOpsPass : PassWrapper<ReduceOpsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReduceOpsPass)

  ReduceOpsPass() = default;
  ReduceOpsPass(const ReduceOpsPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "binade-reduce-ops"; }
  StringRef getDescription() const override {
    return "Remove ops, functions, arguments and results while a test program "
           "still reports the failure";
  }

  void runOnOperation() override {
    tester = std::make_unique<Tester>(test, ArrayRef<std::string>());
    if (!isInteresting(getOperation())) {
      getOperation().emitError("is not interesting: '")
          << test << "' has to exit with 1 for it";
      return signalPassFailure();
    }
    bool isSmaller = true;
    while (isSmaller) {
      isSmaller = false;
      for (Reduction reduction :
           {Reduction(eraseFunctions), Reduction(eraseResults),
            Reduction(replaceByZeros), Reduction(forwardOperands),
            Reduction(eraseArguments)})
        isSmaller |= reduce(reduction);
    }
  }

private:
  bool isInteresting(ModuleOp module) const {
    ScopedDiagnosticHandler quiet(module.getContext(),
                                  [](Diagnostic &) { return success(); });
    return succeeded(verify(module)) &&
           tester->isInteresting(module).first == Tester::Interestingness::True;
  }

  bool reduce(Reduction reduction) {
    bool isSmaller = false;
    size_t count = std::numeric_limits<size_t>::max();
    while (count > 0) {
      size_t total = 0, begin = 0;
      do {
        OwningOpRef<ModuleOp> copy(getOperation().clone());
        total = reduction(*copy, begin, count);
        eraseDeadOps(*copy);
        bool isKept =
            getSize(*copy) < getSize(getOperation()) && isInteresting(*copy);
        if (isKept)
          getOperation().getBodyRegion().takeBody(copy->getBodyRegion());
        else if (begin < total)
          begin += std::min(count, total - begin);
        isSmaller |= isKept;
      } while (begin < total);
      count = std::min(count, total) / 2;
    }
    return isSmaller;
  }

  /// Of the module's text.
  static size_t getSize(ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream);
    return text.size();
  }

  Option<std::string> test{
      *this, "test",
      llvm::cl::desc("Program that is called with the path of a module and "
                     "exits with 1 if the module shows the failure")};
  std::unique_ptr<Tester> tester;
};
} // namespace

void mlir::binade::registerReduceOps() { PassRegistration<ReduceOpsPass>(); }
