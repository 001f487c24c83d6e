//===- Fallbacks.cpp - How a plan deviates from decisions -----------------===//

#include "binade/Pipelines/Fallbacks.h"
#include "binade/Container/JoinFirst.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;

/// A location with the index of an op of the step. Passes copy the location of
/// an op to its replacements, so the index identifies the original op.
using NumberedLoc = FusedLocWith<IntegerAttr>;

static std::optional<size_t> findNumber(Operation *op) {
  std::optional<size_t> number;
  op->getLoc()->walk([&](Location location) {
    auto numbered = dyn_cast<NumberedLoc>(location);
    if (!numbered)
      return WalkResult::advance();
    number = numbered.getMetadata().getInt();
    return WalkResult::interrupt();
  });
  return number;
}

FailureOr<DenseMap<Operation *, Fallback>>
mlir::binade::findFallbacks(ModuleOp module, const CompileOptions &options,
                            std::string &error) {
  MLIRContext *context = module.getContext();
  OwningOpRef<ModuleOp> copy = module.clone();
  auto getOps = [](ModuleOp module) {
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    return llvm::to_vector(
        llvm::make_pointer_range(step.front().getOperations()));
  };
  Builder b(context);
  for (auto [index, op] : llvm::enumerate(getOps(*copy)))
    op->setLoc(
        FusedLoc::get({op->getLoc()}, b.getI64IntegerAttr(index), context));
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && error.empty())
      error = diagnostic.str();
    return success();
  });
  if (failed(runPhases(*copy, CompilerPhase::Optimizer, CompilerPhase::Kernels,
                       options)))
    return failure();
  SmallVector<Operation *> ops = getOps(module);
  DenseMap<Operation *, Fallback> found;
  copy->walk([&](Operation *op) {
    std::optional<Fallback> fallback = getFallback(op);
    std::optional<size_t> number = fallback ? findNumber(op) : std::nullopt;
    if (number)
      found.try_emplace(ops[*number], *fallback);
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

using Labels = std::vector<std::string>; ///< Without duplicates.
using Fallbacks = llvm::MapVector<Attribute, Labels>;

/// Returns the attached fallbacks for which `matches` is true, with the names
/// of their ops.
static Fallbacks collect(ModuleOp module,
                         function_ref<bool(const Fallback &)> matches) {
  Fallbacks found;
  module.walk([&](Operation *op) {
    std::optional<Fallback> fallback = getFallback(op);
    if (!fallback || !matches(*fallback))
      return;
    Labels &labels = found[op->getAttr(kFallbackAttr)];
    std::string label = describe(op);
    if (!llvm::is_contained(labels, label))
      labels.push_back(label);
  });
  return found;
}

static void attachNotes(InFlightDiagnostic &diag, const Fallbacks &fallbacks) {
  constexpr size_t kShown = 4;
  for (const auto &[attribute, labels] : fallbacks) {
    Fallback fallback = readFallback(cast<DictionaryAttr>(attribute));
    diag.attachNote() << fallback.describe() << ": "
                      << ::binade::joinFirst(labels, kShown, "; ");
  }
}

static std::string countOps(const Fallbacks &fallbacks) {
  size_t count = 0;
  for (const auto &[fallback, labels] : fallbacks)
    count += labels.size();
  return std::to_string(count) + (count == 1 ? " op" : " ops");
}

LogicalResult mlir::binade::reportFallbacks(ModuleOp module,
                                            const CompileOptions &options) {
  bool isStrict = options.isStrict;
  TargetAttr target = getTarget(module);
  std::string name =
      target ? target.getName().getValue().str() : std::string("a CPU");
  // A target without matmuls of quantized operands dequantizes all of them,
  // which its users expect: only --strict makes that an error.
  bool multipliesQuantized = target && !target.getCodes().empty();
  Fallbacks changed = collect(module, [&](const Fallback &fallback) {
    bool isQuantized = StringRef(fallback.decided).contains(" x ");
    return !fallback.keepsFormats() &&
           (multipliesQuantized || !isQuantized || isStrict);
  });
  Fallbacks pieces = collect(
      module, [](const Fallback &fallback) { return fallback.keepsFormats(); });
  if (!pieces.empty()) {
    InFlightDiagnostic diag =
        module.emitRemark()
        << name << " computes " << countOps(pieces)
        << " in pieces: it has no kernel for them as a whole";
    attachNotes(diag, pieces);
  }
  if (changed.empty())
    return success();
  InFlightDiagnostic diag =
      isStrict ? module.emitError() : module.emitWarning();
  diag << name << " does not compute " << countOps(changed)
       << " in the formats that the policy decided"
       << (isStrict ? ": refused by --strict" : "");
  attachNotes(diag, changed);
  if (isStrict)
    diag.attachNote() << "without --strict the step is compiled with the "
                         "formats that the other notes name";
  return failure(isStrict);
}
