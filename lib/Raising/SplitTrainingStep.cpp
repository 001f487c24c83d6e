//===- SplitTrainingStep.cpp - Recovery of the parts of a training step ---===//

#include "Dataflow.h"
#include "FindGradients.h"
#include "FindSeed.h"
#include "WriteRule.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/EraseDead.h"
#include "binade/IR/Exported.h"
#include "binade/IR/PortAttributes.h"
#include "binade/Raising/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SPLITTRAININGSTEPPASS
#include "binade/Raising/Passes.h.inc"

namespace {
class StepRecovery {
public:
  StepRecovery(func::FuncOp function, const StepParts &parts)
      : function(function), parts(parts),
        module(function->getParentOfType<ModuleOp>()) {}

  /// Writes the rules of the updates. If one turns out not to be an update,
  /// writes none and returns false.
  bool writeRules() {
    RuleWriter rules(module);
    given.clear();
    for (const Update &update : parts.updates) {
      given.push_back(rules.write(function, parts, update));
      if (!given.back()) {
        rules.erase();
        return false;
      }
    }
    nameRates();
    return true;
  }

  /// Turns the function into `@gradient`. Returns whether all gradients depend
  /// on one seed.
  bool run() {
    addResults();
    moveArguments();
    markBackward();
    eraseDead(function);
    function.setName(kGradientName);
    return plantSeed();
  }

private:
  StringRef getName(BlockArgument argument) {
    std::optional<Port> port = getArgument(function, argument.getArgNumber());
    return port ? port->name : "";
  }

  /// Records the names of learning rates in an attribute of the function.
  void nameRates() {
    SmallVector<StringRef> names;
    for (BlockArgument number : parts.given)
      if (isa<FloatType>(getElementTypeOrSelf(number)))
        names.push_back(getName(number));
    if (!names.empty())
      function->setAttr(kRatesAttr,
                        Builder(function.getContext()).getStrArrayAttr(names));
  }

  /// Replaces the results of the step by those of `@gradient`: buffers, loss
  /// and gradients.
  void addResults() {
    SmallVector<NewResult> results;
    llvm::BitVector dropped(function.getNumResults());
    dropped.set(parts.loss);
    ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
    b.setInsertionPoint(function.front().getTerminator());
    Value loss = getResultValue(function, parts.loss);
    loss = buildCast(b, buildReshape(b, loss, {}), b.getF32Type());
    for (const Replacement &buffer : parts.buffers) {
      dropped.set(buffer.result);
      results.push_back({Role::Buffer, getName(buffer.argument).str(),
                         getResultValue(function, buffer.result)});
    }
    results.push_back({Role::Metric, "loss", loss});
    for (const Update &update : parts.updates) {
      dropped.set(update.parameter.result);
      for (const Replacement &state : update.states)
        dropped.set(state.result);
      results.push_back({Role::Gradient,
                         getName(update.parameter.argument).str(),
                         update.gradient});
    }
    if (parts.step)
      dropped.set(parts.step->result);
    function.front().getTerminator()->eraseOperands(dropped);
    (void)function.eraseResults(dropped);
    mlir::binade::addResults(function, results);
  }

  /// Assigns roles to the arguments and orders them by role.
  void moveArguments() {
    llvm::BitVector dropped(function.getNumArguments());
    SmallVector<BlockArgument> parameters, buffers;
    for (const Update &update : parts.updates) {
      parameters.push_back(update.parameter.argument);
      for (const Replacement &state : update.states)
        dropped.set(state.argument.getArgNumber());
    }
    for (const Replacement &buffer : parts.buffers)
      buffers.push_back(buffer.argument);
    // Parameters that are stored in a file but not updated become buffers.
    for (const Port &port : getArguments(function, Role::Parameter))
      if (BlockArgument argument = function.getArgument(port.index);
          !llvm::is_contained(parameters, argument) &&
          !llvm::is_contained(buffers, argument) && !dropped.test(port.index)) {
        buffers.push_back(argument);
        frozen.insert(argument);
      }
    if (parts.step)
      dropped.set(parts.step->argument.getArgNumber());
    // Dead ops of updates still use arguments that will be erased.
    eraseDead(function);
    // Exporters list every tensor of a model, including unused ones.
    for (BlockArgument argument : function.getArguments())
      if (argument.use_empty() && !llvm::is_contained(parameters, argument) &&
          !llvm::is_contained(buffers, argument))
        dropped.set(argument.getArgNumber());
    move(Role::Parameter, parameters, dropped);
    move(Role::Buffer, buffers, dropped);
    (void)function.eraseArguments(dropped);
    PortAttributes attributes(function);
    for (auto [index, rule] : llvm::enumerate(given))
      attributes.setOfArgument(index, kOptimizerAttr,
                               FlatSymbolRefAttr::get(rule.getSymNameAttr()));
    attributes.apply();
  }

  void move(Role role, ArrayRef<BlockArgument> arguments,
            llvm::BitVector &dropped) {
    SmallVector<NewArgument> moved;
    for (BlockArgument argument : arguments) {
      unsigned index = argument.getArgNumber();
      moved.push_back({getName(argument).str(), argument.getType(),
                       argument.getLoc(), function.getArgAttr(index, kInitAttr),
                       frozen.contains(argument)});
    }
    unsigned before = function.getNumArguments();
    SmallVector<Value> values = addArguments(function, role, moved);
    if (values.empty())
      return;
    unsigned first = cast<BlockArgument>(values.front()).getArgNumber();
    llvm::BitVector shifted(before + values.size());
    for (unsigned index : dropped.set_bits())
      shifted.set(index < first ? index : index + values.size());
    dropped = shifted;
    for (auto [argument, value] : llvm::zip(arguments, values)) {
      dropped.set(argument.getArgNumber());
      Value(argument).replaceAllUsesWith(value);
    }
  }

  /// Marks the backward pass: ops that gradients depend on, but neither the
  /// loss nor a buffer, and ops that depend on these. Moves it after the other
  /// ops.
  void markBackward() {
    SmallVector<Value> forward, gradients;
    for (Role role : {Role::Metric, Role::Buffer})
      for (const Port &port : getResults(function, role))
        forward.push_back(getResultValue(function, port.index));
    for (const Port &port : getResults(function, Role::Gradient))
      gradients.push_back(getResultValue(function, port.index));
    DenseSet<Value> before = getCone(forward), cone = getCone(gradients);
    DenseSet<Value> backward;
    SmallVector<Operation *> marked;
    for (Operation &op : function.front().without_terminator()) {
      if (op.hasTrait<OpTrait::ConstantLike>() ||
          llvm::any_of(op.getResults(),
                       [&](Value y) { return before.contains(y); }))
        continue;
      auto isIn = [&](const DenseSet<Value> &set) {
        return [&](Value x) { return set.contains(x); };
      };
      if (llvm::none_of(op.getResults(), isIn(cone)) &&
          llvm::none_of(op.getOperands(), isIn(backward)))
        continue;
      setPhase(&op, Phase::Backward);
      backward.insert_range(op.getResults());
      marked.push_back(&op);
    }
    for (Operation *op : marked)
      op->moveBefore(function.front().getTerminator());
  }

  /// Inserts gradient seeds, so that a loss scale can be applied. Returns
  /// whether all gradients depend on one of their places.
  bool plantSeed() {
    std::optional<Seed> seed = findSeed(function);
    if (!seed)
      return false;
    bool isShared =
        llvm::any_of(seed->values, [&](Value x) { return leadsToAll(x); });
    for (Value value : seed->values) {
      Value product = multiplyBySeed(value, value.getDefiningOp());
      value.replaceAllUsesExcept(product, product.getDefiningOp());
    }
    for (OpOperand *use : seed->constants)
      use->set(multiplyBySeed(use->get(), use->getOwner()->getPrevNode()));
    return isShared;
  }

  Value multiplyBySeed(Value value, Operation *after) {
    ImplicitLocOpBuilder b(value.getLoc(), function.getContext());
    b.setInsertionPointAfter(after);
    Operation *next = &*b.getInsertionPoint();
    auto type = cast<RankedTensorType>(value.getType());
    Value seed = GradientSeedOp::create(
        b, RankedTensorType::get({}, b.getF32Type()), Value());
    Value all = buildBroadcast(b, buildCast(b, seed, type.getElementType()), {},
                               type.getShape());
    Value product = MulOp::create(b, value, all);
    for (Operation *op = after->getNextNode(); op != next;
         op = op->getNextNode())
      setPhase(op, Phase::Backward);
    return product;
  }

  /// Whether all gradients depend on `seed`.
  bool leadsToAll(Value seed) {
    return llvm::all_of(
        getResults(function, Role::Gradient), [&](const Port &port) {
          Value gradient = getResultValue(function, port.index);
          return gradient != seed && getCone(gradient).contains(seed);
        });
  }

  func::FuncOp function;
  /// Parameters that the step does not update.
  llvm::SmallDenseSet<Value> frozen;
  const StepParts &parts;
  ModuleOp module;
  SmallVector<OptimizerOp> given;
};

struct SplitTrainingStepPass
    : impl::SplitTrainingStepPassBase<SplitTrainingStepPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect>();
  }

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(kForwardName);
    if (!function)
      return;
    if (std::optional<StepParts> parts = findStep(function))
      for (int64_t first : {0, 1}) {
        parts->first = first;
        StepRecovery recovery(function, *parts);
        if (!recovery.writeRules())
          continue;
        recovery.run();
        return;
      }
    recoverGradients(function);
  }

  /// Recovers a function with gradients, but without updates. Candidates count
  /// as gradients if evaluation verified them, or if they are linear in one
  /// seed, which is tried on a copy.
  void recoverGradients(func::FuncOp function) {
    std::optional<StepParts> parts = findGradients(function);
    if (!parts)
      return;
    IRMapping map;
    OpBuilder b(function);
    auto copy = cast<func::FuncOp>(b.clone(*function, map));
    for (Replacement *one : listReplacements(*parts))
      one->argument = cast<BlockArgument>(map.lookup(Value(one->argument)));
    for (Update &update : parts->updates)
      update.gradient = map.lookup(update.gradient);
    bool areGradients = StepRecovery(copy, *parts).run() || parts->isEvaluated;
    if (areGradients)
      for (const std::string &warning : parts->warnings)
        emitWarning(function.getLoc()) << warning;
    (areGradients ? function : copy).erase();
  }

  static SmallVector<Replacement *> listReplacements(StepParts &parts) {
    SmallVector<Replacement *> list;
    for (Update &update : parts.updates)
      list.push_back(&update.parameter);
    for (Replacement &buffer : parts.buffers)
      list.push_back(&buffer);
    return list;
  }
};
} // namespace
} // namespace mlir::binade
