//===- FitBudget.cpp - What waits for the backward part, within bounds ----===//

#include "../Materialize/QuantizeValues.h"
#include "ChooseSaved.h"
#include "binade/Container/Numbers.h"
#include "binade/IR/Names.h"
#include "binade/IR/Rematerialize.h"
#include "binade/Precision/Passes.h"
#include "binade/Precision/StateFormats.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using ::binade::formatBytes;

namespace mlir::binade {
#define GEN_PASS_DEF_FITBUDGETPASS
#include "binade/Precision/Passes.h.inc"

/// COAT's, of what waits for ops that are not linear.
static constexpr StringLiteral kSavedFormat = "coat-group";
namespace {
class Fitter {
public:
  Fitter(func::FuncOp step, QuantizedAttr format)
      : step(step), body(step.front()), format(format) {}

  /// Makes `getBudget`, of the bytes of all values, enough for what waits;
  /// returns what becomes of each.
  FailureOr<SmallVector<Attribute>>
  run(function_ref<uint64_t(uint64_t)> getBudget) {
    values = collectSaved(body, format);
    uint64_t budget = getBudget(getBytes());
    uint64_t left = chooseSaved(values, budget);
    if (left > budget)
      return fail(left, budget);
    SmallVector<Attribute> choices = describe();
    apply();
    return choices;
  }

private:
  uint64_t getBytes() const {
    uint64_t bytes = 0;
    for (const SavedValue &value : values)
      bytes += value.bytes;
    return bytes;
  }

  LogicalResult fail(uint64_t left, uint64_t budget) {
    InFlightDiagnostic error =
        step.emitError("a budget of ")
        << formatBytes(budget) << " is too small: of the "
        << formatBytes(getBytes())
        << " that wait for the backward part at least " << formatBytes(left)
        << " are left when values are quantized and made again";
    SavedValue *largest = nullptr;
    for (SavedValue &value : values)
      if (value.choice == SavedChoice::Keep &&
          (!largest || value.bytes > largest->bytes))
        largest = &value;
    if (largest)
      error.attachNote(largest->save.getLoc())
          << "the largest that has to stay as it is: "
          << binade::describe(largest->save.getX()) << ", "
          << largest->save.getType();
    return error;
  }

  SmallVector<Attribute> describe() {
    MLIRContext *context = step.getContext();
    SmallVector<Attribute> choices;
    for (SavedValue &value : values)
      choices.push_back(SavedAttr::get(
          context, value.choice,
          StringAttr::get(context, binade::describe(value.save.getX())),
          value.save.getType(),
          value.choice == SavedChoice::Quantize ? format : QuantizedAttr()));
    return choices;
  }

  /// What is made again is read where that is made which is made of it: the
  /// last values first.
  void apply() {
    Rematerializer rematerializer(body);
    for (SavedValue &value : llvm::reverse(values))
      if (value.choice == SavedChoice::Recompute)
        rematerializer.replace(value.save, value.ops);
    ImplicitLocOpBuilder b(step.getLoc(), step.getContext());
    ValueQuantizer quantizer(step, b);
    for (SavedValue &value : values)
      if (value.choice == SavedChoice::Quantize)
        quantizer.save(value.save, format,
                       value.save.getType().getElementType());
      else if (value.choice == SavedChoice::Keep && value.isImplicit)
        forgetSave(value.save);
  }

  func::FuncOp step;
  Block &body;
  QuantizedAttr format;
  std::vector<SavedValue> values;
};

struct FitBudgetPass : impl::FitBudgetPassBase<FitBudgetPass> {
  using Base::Base;

  void runOnOperation() override {
    if (budget.empty())
      return;
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (!step) {
      module.emitError("expected a function '@step' whose values wait");
      return signalPassFailure();
    }
    if (!::binade::parseBudget(budget, 1)) {
      module.emitError("expected a budget such as '24MiB' or '60%', got '")
          << budget << "'";
      return signalPassFailure();
    }
    FailureOr<QuantizedAttr> format =
        findTensorFormat(kSavedFormat, module.getLoc());
    if (failed(format))
      return signalPassFailure();
    FailureOr<SmallVector<Attribute>> choices =
        Fitter(step, *format).run([&](uint64_t whole) {
          return *::binade::parseBudget(budget, whole);
        });
    if (failed(choices))
      return signalPassFailure();
    module->setAttr(kSavedAttr, ArrayAttr::get(&getContext(), *choices));
  }
};
} // namespace
} // namespace mlir::binade
