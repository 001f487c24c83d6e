//===- Ports.cpp - Ports of a plan ----------------------------------------===//

#include "Ports.h"
#include "../Fusion/Segments.h"
#include "binade/Container/EvaluationMetrics.h"
#include "binade/IR/MissingFunction.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

static std::string describe(const Port &port) {
  return (stringifyRole(port.role) + " '" + port.name + "'").str();
}

using PortKey = std::pair<unsigned, StringRef>;

static PortKey keyOf(const Port &port) {
  return {static_cast<unsigned>(port.role), port.name};
}

static FailureOr<DenseMap<PortKey, unsigned>>
indexArguments(func::FuncOp function) {
  DenseMap<PortKey, unsigned> arguments;
  for (unsigned index = 0; index < function.getNumArguments(); ++index)
    if (std::optional<Port> port = getArgument(function, index);
        port && !arguments.try_emplace(keyOf(*port), index).second)
      return function.emitError(
                 "expected at most one argument with the role and name ")
             << describe(*port);
  return arguments;
}

static FailureOr<Replaced>
findReplaced(func::FuncOp function,
             const DenseMap<PortKey, unsigned> &arguments) {
  DenseSet<PortKey> results;
  Replaced replaced(function.getNumResults());
  for (auto [index, target] : llvm::enumerate(replaced)) {
    std::optional<Port> port = getResult(function, index);
    if (!port)
      continue;
    if (!results.insert(keyOf(*port)).second)
      return function.emitError(
                 "expected at most one result with the role and name ")
             << describe(*port);
    auto found = arguments.find(keyOf(*port));
    if (found == arguments.end())
      continue;
    target = found->second;
    Type expected = function.getArgumentTypes()[*target];
    if (function.getResultTypes()[index] != expected)
      return function.emitError("expected the result that replaces ")
             << describe(*port) << " to have its type " << expected
             << ", but got " << function.getResultTypes()[index];
  }
  return replaced;
}

/// Returns the argument of `step` for each argument of `function`; `arguments`
/// indexes those of `step`.
static FailureOr<SmallVector<unsigned>>
findShared(func::FuncOp function, func::FuncOp step,
           const DenseMap<PortKey, unsigned> &arguments) {
  SmallVector<unsigned> shared;
  for (BlockArgument argument : function.getArguments()) {
    std::optional<Port> port = getArgument(function, argument.getArgNumber());
    if (!port)
      return function.emitError("argument ")
             << argument.getArgNumber() << " has no role and name";
    auto found = arguments.find(keyOf(*port));
    if (found == arguments.end() ||
        step.getArgumentTypes()[found->second] != argument.getType())
      return function.emitError("expected '@step' to have ")
             << describe(*port) << " of type " << argument.getType();
    shared.push_back(found->second);
  }
  return shared;
}

/// Checks the results of a program other than `step`: the only new one is the
/// metric with the program's name for its loss, and in an evaluation the
/// results for other metrics.
static LogicalResult checkMetric(const Program &program, func::FuncOp step) {
  func::FuncOp function = program.function;
  bool evaluates = function.getName() == kEvaluationName;
  StringRef metric = evaluates ? plan::kEvalLoss : plan::kBatchLoss;
  unsigned metrics = 0, others = 0;
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    std::optional<Port> port = getResult(function, index);
    if (program.replaced[index] && !evaluates) {
      ++others;
      continue;
    }
    if (!port || port->role != Role::Metric ||
        function.getResultTypes()[index] !=
            RankedTensorType::get({}, Float32Type::get(function.getContext())))
      continue;
    metrics += port->name == metric;
    others += evaluates && ::binade::isEvaluationResult(port->name) &&
              !findResult(step, Role::Metric, port->name);
  }
  if (metrics != 1 || others + metrics != function.getNumResults())
    return function.emitError("expected one result")
           << (evaluates ? "" : " that replaces no argument") << ", metric '"
           << metric << "' of type tensor<f32>";
  auto batches = function->getAttrOfType<IntegerAttr>(kBatchesAttr);
  if (evaluates ? bool(batches) : !batches || batches.getInt() < 2)
    return function.emitError("expected ")
           << (evaluates ? "no attribute '"
                         : "a number of at least 2 as attribute '")
           << kBatchesAttr << "'";
  if (findResult(step, Role::Metric, metric))
    return function.emitError("'@step' has a result metric '")
           << metric << "', which only this function may return";
  return success();
}

/// Checks that no two tensors of the training state have the same name in a
/// checkpoint. Parameters and buffers keep the names of the model, which may
/// equal the name of a tensor that the step adds, such as an optimizer state.
static LogicalResult checkSavedNames(func::FuncOp step) {
  llvm::StringMap<Port> saved;
  for (BlockArgument argument : step.getArguments()) {
    std::optional<Port> port = getArgument(step, argument.getArgNumber());
    if (!port || !plan::isTrainingState(getPlanRole(port->role)))
      continue;
    std::string name =
        plan::stateName(getPlanRole(port->role), port->name.str());
    auto [other, isNew] = saved.try_emplace(name, *port);
    if (!isNew)
      return emitError(argument.getLoc())
             << describe(other->second) << " and " << describe(*port)
             << " would both be saved under the name '" << name
             << "'; expected another name for one of them";
  }
  return success();
}

/// Checks that metrics, which are printed and recorded, are single numbers.
static LogicalResult checkMetrics(func::FuncOp step) {
  for (unsigned index = 0; index < step.getNumResults(); ++index) {
    std::optional<Port> port = getResult(step, index);
    auto type = dyn_cast<RankedTensorType>(step.getResultTypes()[index]);
    if (port && port->role == Role::Metric && type &&
        type.getNumElements() != 1)
      return step.emitError("metric '")
             << port->name << "' has type " << type
             << ", expected one element; tensors have the role 'output'";
  }
  return success();
}

FailureOr<SmallVector<Program>> mlir::binade::findPrograms(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  if (!step)
    return emitMissingFunction(module, kStepName, "to plan");
  FailureOr<DenseMap<PortKey, unsigned>> ofStep = indexArguments(step);
  if (failed(ofStep) || failed(checkSavedNames(step)) ||
      failed(checkMetrics(step)))
    return failure();
  SmallVector<Program> programs;
  for (func::FuncOp function : getPrograms(module)) {
    Program program;
    program.function = function;
    FailureOr<DenseMap<PortKey, unsigned>> own = indexArguments(function);
    if (failed(own))
      return failure();
    FailureOr<Replaced> replaced = findReplaced(function, *own);
    if (failed(replaced))
      return failure();
    program.replaced = std::move(*replaced);
    if (function != step) {
      FailureOr<SmallVector<unsigned>> shared =
          findShared(function, step, *ofStep);
      if (failed(shared) || failed(checkMetric(program, step)))
        return failure();
      program.arguments = std::move(*shared);
    }
    programs.push_back(std::move(program));
  }
  return programs;
}

plan::Role mlir::binade::getPlanRole(Role role) {
  switch (role) {
  case Role::Parameter:
    return plan::Role::Parameter;
  case Role::Buffer:
    return plan::Role::Buffer;
  case Role::State:
    return plan::Role::State;
  case Role::Scaler:
    return plan::Role::Scaler;
  case Role::Rng:
    return plan::Role::Rng;
  case Role::Step:
    return plan::Role::Step;
  case Role::Accumulator:
    return plan::Role::Accumulator;
  case Role::Batch:
    return plan::Role::Batch;
  case Role::Hyper:
    return plan::Role::Hyper;
  case Role::Output:
    return plan::Role::Output;
  case Role::Gradient:
    return plan::Role::Gradient;
  case Role::Metric:
    return plan::Role::Metric;
  case Role::Statistic:
    return plan::Role::Statistic;
  }
  llvm_unreachable("all roles are handled");
}

/// Returns the value as f64, or nothing for an integer that f64 cannot
/// represent.
static std::optional<double> getNumber(Attribute attribute) {
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  auto integer = cast<IntegerAttr>(attribute);
  bool isSigned = !isUnsigned(integer.getType());
  APFloat number(APFloat::IEEEdouble());
  APFloat::opStatus status = number.convertFromAPInt(
      integer.getValue(), isSigned, APFloat::rmNearestTiesToEven);
  return status == APFloat::opOK ? std::optional(number.convertToDouble())
                                 : std::nullopt;
}

plan::Init mlir::binade::getInit(
    Attribute init, StringRef name,
    std::vector<std::pair<std::string, DenseElementsAttr>> &tensors) {
  if (auto external = dyn_cast_if_present<ExternalAttr>(init))
    return plan::ExternalInit{
        external.getFile().str(), external.getOffset(), external.getBytes(),
        external.getSha256() ? external.getSha256().str() : ""};
  if (auto random = dyn_cast_if_present<RandomAttr>(init))
    return plan::RandomInit{random.getDistribution().getValue() == "normal"
                                ? plan::RandomInit::Normal
                                : plan::RandomInit::Uniform,
                            random.getOrigin().getValueAsDouble(),
                            random.getScale().getValueAsDouble()};
  if (auto companion = dyn_cast_if_present<CompanionAttr>(init))
    return plan::CompanionInit{
        companion.getParameter().str(),
        *plan::parseMaster(stringifyMaster(companion.getMaster()).str())};
  auto elements = dyn_cast_if_present<DenseElementsAttr>(init);
  if (!elements)
    return {};
  if (elements.isSplat())
    if (std::optional<double> number =
            getNumber(elements.getSplatValue<Attribute>()))
      return plan::FillInit{*number};
  std::string tensor = ("init/" + name).str();
  tensors.emplace_back(tensor, elements);
  return plan::BundleInit{tensor};
}

/// Returns the argument of the launched kernel that `use` is.
static Value enter(LaunchOp launch, OpOperand &use) {
  LaunchSegment segment = findSegment(launch, use.getOperandNumber());
  return segment.kernel.getArgument(use.getOperandNumber() -
                                    segment.firstOperand);
}

std::optional<::binade::NumberRange>
mlir::binade::findNumberRange(Value hyper) {
  for (OpOperand &use : hyper.getUses()) {
    if (auto launch = dyn_cast<LaunchOp>(use.getOwner()))
      if (auto range = findNumberRange(enter(launch, use)))
        return range;
    auto scalars = dyn_cast<OptimizerScalarsOp>(use.getOwner());
    if (!scalars)
      continue;
    auto rule = SymbolTable::lookupNearestSymbolFrom<OptimizerOp>(
        scalars, scalars.getOptimizerAttr());
    unsigned index =
        use.getOperandNumber() - scalars.getHypers().getBeginOperandIndex();
    return cast<SettingAttr>(rule.getHypers()[index]).getRange();
  }
  return std::nullopt;
}

/// Returns the argument of the step that is `value` in a launched kernel.
static BlockArgument leave(LaunchOp launch, const LaunchSegment &segment,
                           Value value) {
  unsigned index = cast<BlockArgument>(value).getArgNumber();
  return dyn_cast<BlockArgument>(
      launch->getOperand(segment.firstOperand + index));
}

std::vector<plan::QuantizedStates>
mlir::binade::findQuantizedStates(func::FuncOp step) {
  llvm::MapVector<QuantizedAttr, plan::QuantizedStates> found;
  auto add = [&](LaunchOp launch, const LaunchSegment &segment,
                 OptimizerUpdateOp update, const KeptState &kept) {
    plan::QuantizedStates::State state;
    for (Value part : update.getStates().slice(kept.first, kept.count))
      if (BlockArgument argument = leave(launch, segment, part))
        if (auto port = getArgument(step, argument.getArgNumber());
            port && port->role == Role::State)
          state.parts.push_back(port->name.str());
    BlockArgument parameter = leave(launch, segment, update.getParameter());
    if (!parameter || state.parts.size() != kept.count)
      return; // It has no name in checkpoints.
    state.shape = cast<RankedTensorType>(parameter.getType()).getShape().vec();
    plan::QuantizedStates &quantized = found[kept.format];
    quantized.format = llvm::to_string(Attribute(kept.format));
    quantized.states.push_back(std::move(state));
  };
  for (auto launch : step.getOps<LaunchOp>())
    for (const LaunchSegment &segment : getSegments(launch).list)
      for (auto update :
           func::FuncOp(segment.kernel).getOps<OptimizerUpdateOp>())
        for (const KeptState &kept : update.getKeptStates())
          if (kept.format)
            add(launch, segment, update, kept);
  std::vector<plan::QuantizedStates> states;
  for (auto &[format, quantized] : found)
    states.push_back(std::move(quantized));
  return states;
}
