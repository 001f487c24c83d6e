//===- Interface.cpp - Arguments and results of a step --------------------===//

#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/CpuTarget.h"
#include "binade/IR/FrozenParameters.h"
#include "binade/IR/Shards.h"

using namespace mlir;
using namespace mlir::binade;

SmallVector<func::FuncOp> mlir::binade::getPrograms(ModuleOp module) {
  SmallVector<func::FuncOp> programs;
  for (StringRef name : {kStepName, kAccumulationName, kEvaluationName})
    if (auto program = module.lookupSymbol<func::FuncOp>(name))
      programs.push_back(program);
  return programs;
}

TargetAttr mlir::binade::getAnyTarget(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<TargetAttr>(kTargetAttr) : nullptr;
}

TargetAttr mlir::binade::getTarget(Operation *op) {
  TargetAttr target = getAnyTarget(op);
  return target && target.getName() != kCpuTargetName ? target : nullptr;
}

Phase mlir::binade::getPhase(Operation *op) {
  auto attribute = op->getAttrOfType<PhaseAttr>(kPhaseAttr);
  return attribute ? attribute.getValue() : Phase::Forward;
}

void mlir::binade::setPhase(Operation *op, Phase phase) {
  if (phase == Phase::Forward)
    op->removeAttr(kPhaseAttr);
  else
    op->setAttr(kPhaseAttr, PhaseAttr::get(op->getContext(), phase));
}

static std::optional<Port> makePort(unsigned index, DictionaryAttr attributes) {
  if (!attributes)
    return std::nullopt;
  auto role = attributes.getAs<RoleAttr>(kRoleAttr);
  if (!role)
    return std::nullopt;
  auto name = attributes.getAs<StringAttr>(kNameAttr);
  return Port{index, role.getValue(), name ? name.getValue() : ""};
}

std::optional<Port> mlir::binade::getArgument(func::FuncOp function,
                                              unsigned index) {
  return makePort(index, function.getArgAttrDict(index));
}

std::optional<Port> mlir::binade::getResult(func::FuncOp function,
                                            unsigned index) {
  return makePort(index, function.getResultAttrDict(index));
}

template <typename Get>
static SmallVector<Port> collect(func::FuncOp function, Role role,
                                 unsigned count, Get get) {
  SmallVector<Port> ports;
  for (unsigned index = 0; index < count; ++index)
    if (std::optional<Port> port = get(function, index);
        port && port->role == role)
      ports.push_back(*port);
  return ports;
}

SmallVector<Port> mlir::binade::getArguments(func::FuncOp function, Role role) {
  return collect(function, role, function.getNumArguments(), getArgument);
}

SmallVector<Port> mlir::binade::getResults(func::FuncOp function, Role role) {
  return collect(function, role, function.getNumResults(), getResult);
}

static std::optional<Port> findByName(ArrayRef<Port> ports, StringRef name) {
  auto *found =
      llvm::find_if(ports, [&](const Port &port) { return port.name == name; });
  return found == ports.end() ? std::nullopt : std::optional<Port>(*found);
}

std::optional<Port> mlir::binade::findArgument(func::FuncOp function, Role role,
                                               StringRef name) {
  return findByName(getArguments(function, role), name);
}

std::optional<Port> mlir::binade::findResult(func::FuncOp function, Role role,
                                             StringRef name) {
  return findByName(getResults(function, role), name);
}

SmallVector<StringRef> mlir::binade::getParameterNames(func::FuncOp function) {
  SmallVector<StringRef> names;
  for (const Port &port : getArguments(function, Role::Parameter))
    names.push_back(port.name);
  for (const Port &port : getArguments(function, Role::Buffer))
    if (function.getArgAttr(port.index, kFrozenAttr))
      names.push_back(port.name);
  return names;
}

static DictionaryAttr portAttributes(MLIRContext *context, Role role,
                                     StringRef name, Attribute init,
                                     bool isFrozen = false) {
  NamedAttrList attributes;
  attributes.set(kRoleAttr, RoleAttr::get(context, role));
  attributes.set(kNameAttr, StringAttr::get(context, name));
  if (init)
    attributes.set(kInitAttr, init);
  if (isFrozen)
    attributes.set(kFrozenAttr, UnitAttr::get(context));
  return attributes.getDictionary(context);
}

SmallVector<Value> mlir::binade::addArguments(func::FuncOp function, Role role,
                                              ArrayRef<NewArgument> arguments) {
  unsigned index = function.getNumArguments();
  while (index > 0) {
    std::optional<Port> before = getArgument(function, index - 1);
    if (!before || before->role <= role)
      break;
    --index;
  }
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  SmallVector<Location> locations;
  for (const NewArgument &argument : arguments) {
    types.push_back(argument.type);
    attributes.push_back(portAttributes(function.getContext(), role,
                                        argument.name, argument.init,
                                        argument.isFrozen));
    locations.push_back(argument.loc);
  }
  SmallVector<unsigned> indices(arguments.size(), index);
  (void)function.insertArguments(indices, types, attributes, locations);
  return llvm::to_vector_of<Value>(
      function.getArguments().slice(index, arguments.size()));
}

Value mlir::binade::addArgument(func::FuncOp function, Role role,
                                StringRef name, Type type, Location loc,
                                Attribute init) {
  return addArguments(function, role, {{name.str(), type, loc, init}}).front();
}

static func::ReturnOp getReturn(func::FuncOp function) {
  return cast<func::ReturnOp>(function.front().getTerminator());
}

void mlir::binade::addResults(func::FuncOp function,
                              ArrayRef<NewResult> results) {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  SmallVector<Value> values;
  for (const NewResult &result : results) {
    types.push_back(result.value.getType());
    attributes.push_back(
        portAttributes(function.getContext(), result.role, result.name, {}));
    values.push_back(result.value);
  }
  unsigned index = function.getNumResults();
  SmallVector<unsigned> indices(results.size(), index);
  (void)function.insertResults(indices, types, attributes);
  getReturn(function)->insertOperands(index, values);
}

void mlir::binade::addResult(func::FuncOp function, Role role, StringRef name,
                             Value value) {
  addResults(function, {{role, name.str(), value}});
}

void mlir::binade::setResult(func::FuncOp function, unsigned index,
                             Value value) {
  getReturn(function)->setOperand(index, value);
  SmallVector<Type> results(function.getResultTypes());
  results[index] = value.getType();
  function.setType(FunctionType::get(function.getContext(),
                                     function.getArgumentTypes(), results));
}

Value mlir::binade::getResultValue(func::FuncOp function, unsigned index) {
  return getReturn(function)->getOperand(index);
}

Value mlir::binade::getRandomState(func::FuncOp function) {
  constexpr StringLiteral kName = "rng";
  if (std::optional<Port> port = findArgument(function, Role::Rng, kName))
    return function.getArgument(port->index);
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  b.setInsertionPoint(getReturn(function));
  auto type = RankedTensorType::get({2}, b.getI64Type());
  Value rng = addArgument(function, Role::Rng, kName, type, b.getLoc());
  Value step = ConstantOp::create(
      b, DenseElementsAttr::get(type, ArrayRef<int64_t>{0, 1}));
  auto next = AddOp::create(b, rng, step);
  setPhase(next, Phase::Optimizer);
  addResult(function, Role::Rng, kName, next);
  return rng;
}

SmallVector<Value> mlir::binade::buildUpdateRandom(ImplicitLocOpBuilder &b,
                                                   Value rng,
                                                   BlockArgument parameter) {
  uint64_t stream = uint64_t(1) << 31 | parameter.getArgNumber();
  Value step = buildRngWord(b, rng, 1);
  auto shift = ConstantOp::create(
      b, DenseElementsAttr::get(cast<RankedTensorType>(step.getType()),
                                static_cast<int64_t>(stream << 32)));
  SmallVector<Value> random = {buildRngWord(b, rng, 0),
                               AddOp::create(b, step, shift)};
  if (int64_t first = getFirstElement(parameter))
    random.push_back(ConstantOp::create(
        b,
        DenseElementsAttr::get(cast<RankedTensorType>(step.getType()), first)));
  return random;
}
