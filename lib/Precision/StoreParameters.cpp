//===- StoreParameters.cpp - Formats of what training keeps ---------------===//

#include "StoreParameters.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

/// Name and format of what is kept beside a parameter: no name for nothing.
static std::pair<StringRef, Type> getBeside(StorageAttr storage) {
  MLIRContext *context = storage.getContext();
  switch (storage.getMaster()) {
  case Master::None:
  case Master::Stochastic:
    return {};
  case Master::F32:
    return {"master", Float32Type::get(context)};
  case Master::SplitRound:
  case Master::SplitTrunc:
    return {"remainder", IntegerType::get(context, 16)};
  case Master::Kahan:
    return {"compensation", storage.getParameter()};
  }
  llvm_unreachable("all remedies are listed");
}

namespace {
class Storer {
public:
  Storer(func::FuncOp step, function_ref<void(Value, FloatType)> setFormat)
      : step(step), setFormat(setFormat), b(step.getLoc(), step.getContext()) {}

  LogicalResult run() {
    step.walk([&](OptimizerUpdateOp op) {
      if (isOpen(op))
        updates.push_back(op);
    });
    for (OptimizerUpdateOp op : updates)
      if (!getPort(op))
        return op.emitOpError("updates no parameter of '@step': that cannot be "
                              "kept in another format");
    if (updates.empty())
      return success();
    addBesides();
    for (OptimizerUpdateOp op : updates)
      store(op);
    addResults(step, results);
    step.setType(
        b.getFunctionType(step.front().getArgumentTypes(),
                          step.front().getTerminator()->getOperandTypes()));
    return success();
  }

private:
  /// Whether types do not say yet what was decided.
  static bool isOpen(OptimizerUpdateOp op) {
    StorageAttr storage = op.getStorageAttr();
    if (!storage)
      return false;
    auto differs = [](Value value, FloatType format) {
      return format && getElementTypeOrSelf(value) != format;
    };
    return differs(op.getParameter(), storage.getParameter()) ||
           llvm::any_of(op.getRuleStates(), [&](Value state) {
             return differs(state, storage.getStates());
           });
  }

  std::optional<Port> getPort(OptimizerUpdateOp op) {
    auto argument = dyn_cast<BlockArgument>(op.getParameter());
    return argument ? getArgument(step, argument.getArgNumber()) : std::nullopt;
  }

  /// Arguments for all that is kept: one by one they would take quadratic time.
  void addBesides() {
    SmallVector<NewArgument> arguments;
    SmallVector<OptimizerUpdateOp> owners;
    bool draws = false;
    for (OptimizerUpdateOp op : updates) {
      StorageAttr storage = op.getStorageAttr();
      Master master = storage.getMaster();
      draws |= master == Master::Stochastic;
      auto [name, element] = getBeside(storage);
      if (name.empty())
        continue;
      StringRef parameter = getPort(op)->name;
      auto type = cast<RankedTensorType>(op.getParameter().getType());
      arguments.push_back(
          {(name + "/" + parameter).str(), type.clone(element), op.getLoc(),
           BesideAttr::get(b.getContext(), b.getStringAttr(parameter),
                           master)});
      owners.push_back(op);
    }
    SmallVector<Value> values = addArguments(step, Role::State, arguments);
    for (auto [op, argument, value] : llvm::zip(owners, arguments, values))
      besides[op] = {argument.name, value};
    if (draws)
      drawNumbers();
  }

  /// Seed and step of the generator that dropout draws from, too.
  void drawNumbers() {
    constexpr StringLiteral kName = "rng";
    auto type = RankedTensorType::get({2}, b.getI64Type());
    std::optional<Port> port = findArgument(step, Role::Rng, kName);
    Value rng = port ? Value(step.getArgument(port->index))
                     : addArgument(step, Role::Rng, kName, type, b.getLoc());
    b.setInsertionPoint(updates.front());
    Operation *before = updates.front()->getPrevNode();
    seed = buildRngWord(b, rng, 0);
    drawStep = buildRngWord(b, rng, 1);
    if (!port) {
      Value one = ConstantOp::create(
          b, DenseElementsAttr::get(type, ArrayRef<int64_t>{0, 1}));
      results.push_back({Role::Rng, kName.str(), AddOp::create(b, rng, one)});
    }
    setPhases(before, updates.front());
  }

  /// Between `before` and `end`.
  void setPhases(Operation *before, Operation *end) {
    for (Operation *op = before ? before->getNextNode() : &step.front().front();
         op != end; op = op->getNextNode())
      if (!op->hasTrait<OpTrait::ConstantLike>())
        setPhase(op, Phase::Optimizer);
  }

  /// Seed, and step with the parameter's stream above it. Streams of dropout
  /// are those below.
  SmallVector<Value> getRandom(OptimizerUpdateOp op) {
    uint64_t stream = uint64_t(1) << 31 | getPort(op)->index;
    auto shift = ConstantOp::create(
        b, DenseElementsAttr::get(cast<RankedTensorType>(drawStep.getType()),
                                  static_cast<int64_t>(stream << 32)));
    return {seed, AddOp::create(b, drawStep, shift)};
  }

  void store(OptimizerUpdateOp op) {
    StorageAttr storage = op.getStorageAttr();
    Master master = storage.getMaster();
    b.setLoc(op.getLoc());
    b.setInsertionPoint(op);
    Operation *before = op->getPrevNode();
    SmallVector<Value> random;
    if (master == Master::Stochastic)
      random = getRandom(op);
    SmallVector<Value> states(op.getStates());
    auto keep = [&](Value value, FloatType format) {
      if (format)
        setFormat(value, format);
    };
    keep(op.getParameter(), storage.getParameter());
    for (Value state : states)
      keep(state, storage.getStates());
    auto beside = besides.find(op);
    if (beside != besides.end())
      states.push_back(beside->second.second);
    SmallVector<Type> types = {op.getParameter().getType()};
    llvm::append_range(types, ValueRange(states).getTypes());
    auto update = OptimizerUpdateOp::create(
        b, types, op.getOptimizer(), op.getParameter(), op.getGradient(),
        states, op.getScalars(), op.getFactors(), op.getSkip(), random, master,
        ArrayAttr(), storage);
    setPhases(before, op);
    if (beside != besides.end())
      results.push_back(
          {Role::State, beside->second.first, update.getNewStates().back()});
    op->replaceAllUsesWith(
        update->getResults().take_front(op->getNumResults()));
    op->erase();
  }

  func::FuncOp step;
  function_ref<void(Value, FloatType)> setFormat;
  ImplicitLocOpBuilder b;
  SmallVector<OptimizerUpdateOp> updates;
  DenseMap<Operation *, std::pair<std::string, Value>> besides;
  SmallVector<NewResult> results;
  Value seed, drawStep;
};
} // namespace

LogicalResult
mlir::binade::storeParameters(func::FuncOp step,
                              function_ref<void(Value, FloatType)> setFormat) {
  return Storer(step, setFormat).run();
}
