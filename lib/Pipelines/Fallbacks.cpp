//===- Fallbacks.cpp - what a plan computes otherwise ---------------------===//

#include "binade/Pipelines/Fallbacks.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "binade/Kernels/EmitPlan.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;

/// The location of an op that is looked for later: ops that it becomes keep it.
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

using Labels = std::vector<std::string>; ///< Each once.
using Fallbacks = llvm::MapVector<Attribute, Labels>;

/// Those of which `matches` holds, each with the ops that it is said of.
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
  for (const auto &[fallback, labels] : fallbacks) {
    std::string names = llvm::join(ArrayRef(labels).take_front(kShown), "; ");
    if (labels.size() > kShown)
      names += llvm::formatv(" and {0} more", labels.size() - kShown);
    diag.attachNote() << ::binade::plan::describe(makeFallback(
                             readFallback(cast<DictionaryAttr>(fallback))))
                      << ": " << names;
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
  auto target = module->getAttrOfType<TargetAttr>(kTargetAttr);
  std::string name =
      target ? target.getName().getValue().str() : std::string("a CPU");
  // A target without codes is reported where formats are.
  bool hasCodes = target && !target.getCodes().empty();
  Fallbacks changed = collect(module, [&](const Fallback &fallback) {
    bool isOfCodes = StringRef(fallback.decided).contains(" x ");
    return !fallback.keepsFormats() && (hasCodes || !isOfCodes || isStrict);
  });
  Fallbacks pieces = collect(
      module, [](const Fallback &fallback) { return fallback.keepsFormats(); });
  if (!pieces.empty()) {
    InFlightDiagnostic diag = module.emitRemark()
                              << name << " computes " << countOps(pieces)
                              << " in pieces: it has no kernel of the whole";
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
                         "formats that are named here";
  return failure(isStrict);
}
