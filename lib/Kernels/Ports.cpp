//===- Ports.cpp - The step's interface in a plan -------------------------===//

#include "Ports.h"

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

FailureOr<Replaced> mlir::binade::findReplaced(func::FuncOp step) {
  DenseMap<PortKey, unsigned> arguments;
  for (unsigned index = 0; index < step.getNumArguments(); ++index)
    if (std::optional<Port> port = getArgument(step, index);
        port && !arguments.try_emplace(keyOf(*port), index).second)
      return step.emitError("two arguments are ") << describe(*port);
  DenseSet<PortKey> results;
  Replaced replaced(step.getNumResults());
  for (auto [index, target] : llvm::enumerate(replaced)) {
    std::optional<Port> port = getResult(step, index);
    if (!port)
      continue;
    if (!results.insert(keyOf(*port)).second)
      return step.emitError("two results are ") << describe(*port);
    auto found = arguments.find(keyOf(*port));
    if (found == arguments.end())
      continue;
    target = found->second;
    Type expected = step.getArgumentTypes()[*target];
    if (step.getResultTypes()[index] != expected)
      return step.emitError("expected the result that replaces ")
             << describe(*port) << " to have its type " << expected
             << ", but got " << step.getResultTypes()[index];
  }
  return replaced;
}

FailureOr<Evaluation> mlir::binade::findEvaluation(ModuleOp module,
                                                   func::FuncOp step) {
  Evaluation evaluation;
  auto function = module.lookupSymbol<func::FuncOp>(kEvaluationName);
  if (!function)
    return evaluation;
  evaluation.function = function;
  DenseMap<PortKey, unsigned> arguments;
  for (unsigned index = 0; index < step.getNumArguments(); ++index)
    if (std::optional<Port> port = getArgument(step, index))
      arguments[keyOf(*port)] = index;
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
    evaluation.arguments.push_back(found->second);
  }
  std::optional<Port> loss =
      findResult(function, Role::Metric, plan::kEvalLoss);
  if (function.getNumResults() != 1 || !loss ||
      function.getResultTypes()[0] !=
          RankedTensorType::get({}, Float32Type::get(module.getContext())))
    return function.emitError("expected one result, metric '")
           << plan::kEvalLoss << "' of type tensor<f32>";
  if (findResult(step, Role::Metric, plan::kEvalLoss))
    return function.emitError("'@step' has a result metric '")
           << plan::kEvalLoss << "' too";
  return evaluation;
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
  llvm_unreachable("all roles are listed");
}

static double getNumber(Attribute attribute) {
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  const APInt &value = cast<IntegerAttr>(attribute).getValue();
  return value.getBitWidth() == 1 ? static_cast<double>(value.getZExtValue())
                                  : static_cast<double>(value.getSExtValue());
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
  if (auto beside = dyn_cast_if_present<BesideAttr>(init))
    return plan::BesideInit{
        beside.getParameter().str(),
        *plan::parseMaster(stringifyMaster(beside.getMaster()).str())};
  auto elements = dyn_cast_if_present<DenseElementsAttr>(init);
  if (!elements)
    return {};
  if (elements.isSplat())
    return plan::FillInit{getNumber(elements.getSplatValue<Attribute>())};
  std::string tensor = ("init/" + name).str();
  tensors.emplace_back(tensor, elements);
  return plan::BundleInit{tensor};
}

/// What `use` is inside the kernel of a launch that it enters.
static Value enter(LaunchOp launch, OpOperand &use) {
  unsigned operand = use.getOperandNumber();
  for (auto symbol : launch.getKernels().getAsRange<FlatSymbolRefAttr>()) {
    auto kernel =
        SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(launch, symbol);
    if (operand < kernel.getNumArguments())
      return kernel.getArgument(operand);
    operand -= kernel.getNumArguments();
  }
  llvm_unreachable("operands of a launch are its kernels' arguments");
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
