//===- WatchedValues.cpp - Values of a step that can be watched -----------===//

#include "WatchedValues.h"
#include "GivenValues.h"
#include "OutputGradients.h"
#include "binade/IR/Build.h"
#include "binade/IR/Metrics.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Names.h"
#include <set>

using namespace mlir;
using namespace mlir::binade;

/// Whether statistics of the elements of `op` can be fused into its kernel.
static bool fusesStatistics(Operation *op) {
  auto kernelOp = dyn_cast_or_null<KernelOpInterface>(op);
  return kernelOp && kernelOp.getSchedule() == Schedule::Elementwise;
}

/// Returns a value with the same bytes as `value`, in the shape of a kernel
/// that writes or reads them, so that statistics can be fused into it. The
/// result is the same for all views of a value, so that statistics are not
/// computed twice.
static Value findShown(Value value) {
  auto isShown = [](Operation *op) { return isView(op) && isMovement(op); };
  while (isShown(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  if (fusesStatistics(value.getDefiningOp()))
    return value;
  SmallVector<Value> shown = {value};
  Operation *first = nullptr;
  for (size_t i = 0; i < shown.size(); ++i)
    for (Operation *reader : shown[i].getUsers()) {
      if (reader->getBlock() != value.getParentBlock())
        continue;
      if (isShown(reader))
        shown.push_back(reader->getResult(0));
      else if (fusesStatistics(reader) &&
               (!first || reader->isBeforeInBlock(first))) {
        first = reader;
        value = shown[i];
      }
    }
  return value;
}

namespace {
class Collector {
public:
  explicit Collector(func::FuncOp step) : step(step) {}

  std::vector<WatchedValue> run() {
    collectWeights();
    collectGradients();
    collectForward();
    findQuantizedStates();
    collectArguments(Role::State, WatchedKind::State);
    collectArguments(Role::Scaler, WatchedKind::Scale);
    if (auto loss = findResult(step, Role::Metric, "loss"))
      add(WatchedKind::Loss, "loss", getResultValue(step, loss->index));
    for (WatchedValue &given : collectGivenValues(step))
      values.push_back(std::move(given));
    return std::move(values);
  }

private:
  WatchedValue *add(WatchedKind kind, StringRef layer, Value value) {
    auto found = codes.find(value);
    bool isCoded = found != codes.end();
    auto type = isCoded ? found->second.type
                        : dyn_cast<RankedTensorType>(value.getType());
    auto element = type ? dyn_cast<FloatType>(type.getElementType()) : nullptr;
    if (!element || element.getWidth() > 32 || type.getNumElements() == 0)
      return nullptr;
    layer.consume_front("/");
    std::string name = layer.str();
    for (unsigned count = 2; !names.insert({kind, name}).second; ++count)
      name = (layer + " #" + Twine(count)).str();
    Operation *producer = value.getDefiningOp();
    values.push_back({kind, name, value, findShown(value),
                      producer ? getPhase(producer) : Phase::Forward});
    if (isCoded)
      values.back().codes = found->second;
    return &values.back();
  }

  void collectWeights() {
    for (const Port &port : getArguments(step, Role::Parameter)) {
      Value argument = step.getArgument(port.index);
      OptimizerUpdateOp update = findUpdate(argument);
      if (WatchedValue *weight = add(WatchedKind::Weight, port.name, argument))
        weight->change = getChange(update);
      if (!update || !isBare(update))
        continue;
      if (auto *weight = add(WatchedKind::NarrowWeight, port.name, argument))
        weight->change = getChange(update);
    }
  }

  static std::optional<WeightChange> getChange(OptimizerUpdateOp update) {
    if (!update)
      return std::nullopt;
    WeightChange change{update.getGradient(), update.getNewParameter(),
                        update.getSkip(), update.getCompanion()};
    if (change.companion)
      change.companionAfter = update.getNewStates().back();
    return change;
  }

  static OptimizerUpdateOp findUpdate(Value parameter) {
    OptimizerUpdateOp found;
    for (Operation *user : parameter.getUsers())
      if (auto update = dyn_cast<OptimizerUpdateOp>(user))
        found = update;
    return found;
  }

  /// Whether the update discards what a 16-bit parameter rounds away.
  static bool isBare(OptimizerUpdateOp update) {
    Type element = getElementTypeOrSelf(update.getParameter().getType());
    return element.getIntOrFloatBitWidth() == 16 &&
           update.getMaster() == Master::None;
  }

  void collectGradients() {
    for (auto update : step.getOps<OptimizerUpdateOp>()) {
      auto argument = dyn_cast<BlockArgument>(update.getParameter());
      auto port =
          argument ? getArgument(step, argument.getArgNumber()) : std::nullopt;
      if (!port)
        continue;
      Value gradient = update.getGradient();
      if (auto *scaled = add(WatchedKind::ScaledGradient, port->name, gradient))
        scaled->isRepeated = llvm::none_of(update.getFactors(), hasScale);
      WatchedValue *unscaled = add(WatchedKind::Gradient, port->name, gradient);
      for (Value factor : update.getFactors())
        if (auto unscale = factor.getDefiningOp<UnscaleFactorOp>();
            unscaled && unscale && !isOne(unscale)) {
          unscaled->factor = factor;
          unscaled->phase = Phase::Optimizer;
        }
    }
  }

  /// Whether the factor of an update divides by a loss scale.
  static bool hasScale(Value factor) {
    auto unscale = factor.getDefiningOp<UnscaleFactorOp>();
    return unscale && unscale.getScale();
  }

  /// Whether stored gradients are unscaled in every step.
  static bool isOne(UnscaleFactorOp factor) {
    return !factor.getScale() && factor.getBatches() == 1;
  }

  void findQuantizedStates() {
    for (auto update : step.getOps<OptimizerUpdateOp>()) {
      OperandRange states = update.getRuleStates();
      auto type = cast<RankedTensorType>(update.getParameter().getType());
      for (const KeptState &state : update.getKeptStates())
        if (state.format)
          codes[states[state.first]] = {
              llvm::to_vector(states.slice(state.first, state.count)),
              state.format, type.clone(Float32Type::get(step.getContext()))};
    }
  }

  void collectArguments(Role role, WatchedKind kind) {
    for (const Port &port : getArguments(step, role))
      add(kind, port.name, step.getArgument(port.index));
  }

  /// Returns the ops whose results only update running statistics.
  DenseSet<Operation *> findAdvancing() {
    DenseSet<Operation *> advancing;
    auto advances = [&](OpOperand &use) {
      if (!isa<func::ReturnOp>(use.getOwner()))
        return advancing.contains(use.getOwner());
      std::optional<Port> port = getResult(step, use.getOperandNumber());
      return port && port->role == Role::Buffer;
    };
    for (Operation &op : llvm::reverse(step.front().without_terminator()))
      if (!op.use_empty() && llvm::all_of(op.getUses(), advances))
        advancing.insert(&op);
    return advancing;
  }

  /// Of several ops from one node, the last has the node's output, except for
  /// ops that update running statistics; the first that reads a parameter has
  /// its input.
  void collectForward() {
    DenseSet<Operation *> advancing = findAdvancing();
    NodeOutputs outputs;
    llvm::DenseSet<StringRef> hasInput;
    std::vector<std::pair<StringRef, Value>> saved;
    for (Operation &op : step.front().without_terminator()) {
      if (getPhase(&op) != Phase::Forward)
        continue;
      if (auto save = dyn_cast<SaveOp>(op))
        saved.push_back({getLayer(save), save.getX()});
      auto decided = dyn_cast<PrecisionOpInterface>(op);
      if (!decided || isa<SaveOp>(op))
        continue;
      StringRef layer = getLayer(&op);
      for (OpResult result : op.getResults())
        if (!advancing.contains(&op) && !getMoved(result) &&
            decided.getResultFormat(result.getResultNumber()) ==
                FormatRole::Chosen) {
          outputs[layer] = result;
          break;
        }
      if (Value input = findInput(&op); input && hasInput.insert(layer).second)
        add(WatchedKind::Input, layer, input);
    }
    for (auto [layer, value] : outputs)
      add(WatchedKind::Output, layer, value);
    collectOutputGradients(outputs);
    for (auto [layer, value] : saved)
      add(WatchedKind::Saved, layer, value);
  }

  /// With scales per layer, the total scale of each gradient is not known, so
  /// there are no unscaled gradients.
  void collectOutputGradients(const NodeOutputs &outputs) {
    auto seeds = step.getOps<GradientSeedOp>();
    Value scale = seeds.empty() ? Value() : (*seeds.begin()).getScale();
    bool hasLayerScales =
        llvm::any_of(getResults(step, Role::Statistic), [](const Port &port) {
          return port.name.starts_with(kLayerScalePrefix);
        });
    for (auto [layer, value] : findOutputGradients(step, outputs)) {
      if (auto *scaled = add(WatchedKind::ScaledOutputGradient, layer, value))
        scaled->isRepeated = !scale && !hasLayerScales;
      if (hasLayerScales)
        continue;
      WatchedValue *unscaled = add(WatchedKind::OutputGradient, layer, value);
      if (unscaled && scale) {
        unscaled->scale = scale;
        unscaled->phase = Phase::Optimizer;
      }
    }
  }

  /// Returns the name of the node, or of the op if the node is not known.
  static StringRef getLayer(Operation *op) {
    StringRef node = getNodeName(op);
    if (!node.empty())
      return node;
    // A saved value belongs to the node of its producer.
    if (auto save = dyn_cast<SaveOp>(op))
      if (Operation *producer = save.getX().getDefiningOp())
        return getLayer(producer);
    return op->getName().stripDialect();
  }

  /// Returns the first floating-point operand, other than parameters, of an op
  /// with a parameter.
  Value findInput(Operation *op) const {
    if (llvm::none_of(op->getOperands(),
                      [&](Value x) { return isParameter(x); }))
      return {};
    for (Value operand : op->getOperands())
      if (isa<FloatType>(getElementTypeOrSelf(operand.getType())) &&
          !isParameter(operand))
        return operand;
    return {};
  }

  /// Whether `x` is a parameter, also after views, transposes and casts.
  bool isParameter(Value x) const {
    while (Value moved = getMoved(x))
      x = moved;
    auto argument = dyn_cast<BlockArgument>(x);
    auto port =
        argument ? getArgument(step, argument.getArgNumber()) : std::nullopt;
    return port && port->role == Role::Parameter;
  }

  func::FuncOp step;
  std::vector<WatchedValue> values;
  std::set<std::pair<WatchedKind, std::string>> names;
  llvm::DenseMap<Value, WatchedValue::Codes> codes; ///< Of quantized states.
};
} // namespace

std::vector<WatchedValue>
mlir::binade::collectWatchedValues(func::FuncOp step) {
  return Collector(step).run();
}
