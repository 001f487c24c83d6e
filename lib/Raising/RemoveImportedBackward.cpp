//===- RemoveImportedBackward.cpp - Removal of derivable backward passes --===//

#include "RandomPoint.h"
#include "binade/Autodiff/Differentiate.h"
#include "binade/IR/EraseDead.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Interface.h"
#include "binade/IR/PortAttributes.h"
#include "binade/Raising/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::binade {
#define GEN_PASS_DEF_REMOVEIMPORTEDBACKWARDPASS
#include "binade/Raising/Passes.h.inc"

/// How much equal gradients may differ, relative to their norm: a few constants
/// are rounded to f32 on one side only.
static constexpr double kRoundingTolerance = 0x1p-22;

/// Smaller gradients, relative to the largest, count as 0: they are rounding
/// errors of f64.
static constexpr double kZeroTolerance = 1e-12;

/// Ranges of random values: the first is small enough for an epsilon of 1e-8 to
/// matter, the second large enough for functions such as ReLU6 to saturate.
static constexpr double kRanges[] = {0x1p-20, 2.0};

static bool isF32(func::FuncOp function) {
  auto isNarrow = [](Type type) {
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
    return element && !element.isF32();
  };
  return llvm::none_of(function.getArgumentTypes(), isNarrow) &&
         !function
              .walk([&](Operation *op) {
                return llvm::any_of(op->getResultTypes(), isNarrow)
                           ? WalkResult::interrupt()
                           : WalkResult::advance();
              })
              .wasInterrupted();
}

/// Removes the gradients from the results, and ops that are then dead. Returns
/// whether no op of the backward pass is left.
static bool dropGradients(func::FuncOp function) {
  llvm::BitVector dropped(function.getNumResults());
  for (const Port &port : getResults(function, Role::Gradient))
    dropped.set(port.index);
  function.front().getTerminator()->eraseOperands(dropped);
  (void)function.eraseResults(dropped);
  eraseDead(function);
  return llvm::none_of(
      function.front().without_terminator(),
      [](Operation &op) { return getPhase(&op) == Phase::Backward; });
}

namespace {
/// Compares the gradients of a graph with those that autodiff derives.
class GradientComparison {
  using Gradients = SmallVector<std::pair<std::string, unsigned>>;

public:
  explicit GradientComparison(func::FuncOp function)
      : module(ModuleOp::create(function.getLoc())) {
    OpBuilder b = OpBuilder::atBlockBegin(module->getBody());
    copy = cast<func::FuncOp>(b.clone(*function));
    copy.setName("gradients");
  }

  /// Returns how the gradients differ; empty if they are equal.
  std::string find() {
    // Suppress errors: the attempt may fail.
    ScopedDiagnosticHandler silent(copy.getContext(),
                                   [](Diagnostic &) { return success(); });
    std::optional<Port> loss = findResult(copy, Role::Metric, "loss");
    Gradients given;
    for (const Port &port : getResults(copy, Role::Gradient))
      given.emplace_back(port.name, port.index);
    // Derived gradients get the names, so remove them from the given ones.
    PortAttributes attributes(copy);
    for (auto &[name, index] : given)
      for (StringRef attribute : {kRoleAttr, kNameAttr})
        attributes.setOfResult(index, attribute, {});
    attributes.apply();
    if (!loss || failed(differentiate(copy, loss->index)))
      return "its loss cannot be differentiated";
    for (double range : kRanges)
      if (std::string difference = compareWithin(range, given);
          !difference.empty())
        return difference;
    return "";
  }

private:
  std::string compareWithin(double range, const Gradients &given) {
    std::mt19937 generator;
    EvaluationOptions options;
    options.rounds = false;
    FailureOr<Outputs> outputs =
        evaluate(*module, copy.getSymName(),
                 drawArguments(copy, range, generator), options);
    if (failed(outputs))
      return "it cannot be evaluated";
    SmallVector<std::string> names = getResultNames(copy);
    auto get = [&](unsigned index) {
      return ArrayRef(outputs->values.at(names[index])->getFloats());
    };
    double largest = 0.0;
    for (const Port &port : getResults(copy, Role::Gradient))
      largest = std::max(largest, getNorm(get(port.index)));
    for (auto &[name, index] : given) {
      std::optional<Port> own = findResult(copy, Role::Gradient, name);
      if (!own)
        return "autodiff has no gradient of '" + name + "'";
      double norm = getNorm(get(own->index)),
             distance = getDistance(get(index), get(own->index));
      if (!(distance <= kRoundingTolerance * norm + kZeroTolerance * largest))
        return llvm::formatv("its gradient of '{0}' differs from autodiff's by "
                             "{1:e1}, whose norm is {2:e1}",
                             name, distance, norm);
    }
    return "";
  }

  OwningOpRef<ModuleOp> module;
  func::FuncOp copy;
};

struct RemoveImportedBackwardPass
    : impl::RemoveImportedBackwardPassBase<RemoveImportedBackwardPass> {
  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(kGradientName);
    if (!function)
      return;
    std::string reason = findReason(function);
    StringRef says = "derived anew: the graph's has the same gradients";
    if (reason.empty()) {
      dropGradients(function);
      function.setName(kForwardName);
    }
    function->setAttr(
        kBackwardAttr,
        StringAttr::get(&getContext(), reason.empty()
                                           ? says.str()
                                           : "the graph's own: " + reason));
  }

  /// Returns why the backward pass has to be kept; empty if it can be removed.
  static std::string findReason(func::FuncOp function) {
    if (!isF32(function))
      return "it has formats other than f32";
    if (estimateCost(function) == Cost::TooLarge)
      return "it is too large to be evaluated";
    if (function.getOps<GradientSeedOp>().empty())
      return "it is not linear in a seed";
    OwningOpRef<func::FuncOp> rest = function.clone();
    if (!dropGradients(*rest))
      return "results other than gradients depend on it";
    return GradientComparison(function).find();
  }
};
} // namespace
} // namespace mlir::binade
