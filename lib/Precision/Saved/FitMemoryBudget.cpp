//===- FitMemoryBudget.cpp - Limit the memory of saved values -------------===//

#include "../Materialize/QuantizeValues.h"
#include "ChooseSaved.h"
#include "binade/Container/Numbers.h"
#include "binade/IR/MissingFunction.h"
#include "binade/IR/Names.h"
#include "binade/IR/Rematerialize.h"
#include "binade/Precision/Passes.h"
#include "binade/Precision/StateFormats.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using ::binade::formatBytes;

namespace mlir::binade {
#define GEN_PASS_DEF_FITMEMORYBUDGETPASS
#include "binade/Precision/Passes.h.inc"

/// COAT's format for values that nonlinear ops save.
static constexpr StringLiteral kSavedFormat = "coat-group";
namespace {
class Fitter {
public:
  Fitter(func::FuncOp step, QuantizedAttr format, bool recomputesMatmuls)
      : step(step), body(step.front()), format(format),
        recomputesMatmuls(recomputesMatmuls) {}

  /// Makes the saved values fit into `getBudget`, which is called with the
  /// bytes of all saved values. Returns the choice for each value.
  FailureOr<SmallVector<Attribute>>
  run(function_ref<uint64_t(uint64_t)> getBudget) {
    values = collectSaved(body, format, recomputesMatmuls);
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
        << formatBytes(getBytes()) << " saved for the backward pass, at least "
        << formatBytes(left)
        << " remain when values are recomputed and quantized";
    SavedValue *largest = nullptr;
    for (SavedValue &value : values)
      if (value.choice == SavedChoice::Keep &&
          (!largest || value.bytes > largest->bytes))
        largest = &value;
    if (largest)
      error.attachNote(largest->save.getLoc())
          << "the largest value that must stay as it is: "
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

  /// Recomputes the last values first, so that the sources of a recomputed
  /// value are recomputed at its new place.
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
        eraseSave(value.save);
  }

  func::FuncOp step;
  Block &body;
  QuantizedAttr format;
  bool recomputesMatmuls;
  std::vector<SavedValue> values;
};

struct FitMemoryBudgetPass
    : impl::FitMemoryBudgetPassBase<FitMemoryBudgetPass> {
  using Base::Base;

  void runOnOperation() override {
    if (budget.empty())
      return;
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (!step) {
      emitMissingFunction(module, kStepName, "that saves values");
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
        Fitter(step, *format, recomputesMatmuls).run([&](uint64_t whole) {
          return *::binade::parseBudget(budget, whole);
        });
    if (failed(choices))
      return signalPassFailure();
    module->setAttr(kSavedAttr, ArrayAttr::get(&getContext(), *choices));
  }
};
} // namespace
} // namespace mlir::binade
