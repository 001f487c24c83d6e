//===- Rules.cpp - Optimizer rules on whole tensors -----------------------===//

#include "binade/IR/Rules.h"
#include "binade/IR/Build.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

static std::string getPrepareName(OptimizerOp rule) {
  return (rule.getSymName() + ".prepare").str();
}

bool mlir::binade::drawsRandomValue(func::FuncOp formula) {
  unsigned count = formula.getNumArguments();
  auto role = count > 0
                  ? formula.getArgAttrOfType<RoleAttr>(count - 1, kRoleAttr)
                  : RoleAttr();
  return role && role.getValue() == Role::Rng;
}

std::optional<unsigned> mlir::binade::findEvaluationOffset(OptimizerOp rule) {
  for (auto [index, state] :
       llvm::enumerate(rule.getStates().getAsRange<SettingAttr>()))
    if (state.getName() == kEvaluationOffset)
      return index;
  return std::nullopt;
}

SmallVector<func::FuncOp> mlir::binade::getPrepares(OptimizerOp rule) {
  SmallVector<func::FuncOp> found;
  std::string name = getPrepareName(rule);
  for (auto function : rule->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (StringRef rest = function.getName();
        rest.consume_front(name) && (rest.empty() || rest.front() == '.'))
      found.push_back(function);
  return found;
}

func::FuncOp mlir::binade::findPrepare(OptimizerOp rule, StringRef form) {
  std::string name = getPrepareName(rule);
  if (!form.empty())
    name += "." + form.str();
  return rule->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(name);
}

std::pair<int64_t, int64_t> mlir::binade::getMatrix(ArrayRef<int64_t> shape) {
  if (shape.empty())
    return {1, 1};
  return {shape.front(), ShapedType::getNumElements(shape.drop_front())};
}

//===----------------------------------------------------------------------===//
// Mapping a `prepare` to the shape of a parameter
//===----------------------------------------------------------------------===//

static RankedTensorType getParameter(func::FuncOp prepare) {
  return cast<RankedTensorType>(prepare.getArgumentTypes().front());
}

bool mlir::binade::isElementwise(func::FuncOp prepare, unsigned state) {
  return !prepare ||
         prepare.getArgumentTypes()[2 + state] == getParameter(prepare);
}

namespace {
/// Maps the lengths of axes in a `prepare` to those of the parameter.
class Lengths {
public:
  Lengths(func::FuncOp prepare, ArrayRef<int64_t> shape)
      : written(getParameter(prepare).getShape()) {
    auto [rows, columns] = getMatrix(shape);
    if (auto heads = prepare->getAttrOfType<IntegerAttr>(kRowHeadsAttr)) {
      columns = rows * columns / heads.getInt();
      rows = heads.getInt();
    }
    meant = {rows, columns};
    if (written.size() == 1)
      meant = {rows * columns};
  }

  ArrayRef<int64_t> getShape() const { return meant; }

  /// Whether an op of the `prepare` reduces the first axis of the parameter.
  bool isReductionOfRows(Operation &op) const {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    if (!kernel || op.getNumOperands() != 1 || op.getNumResults() != 1)
      return false;
    auto from = cast<RankedTensorType>(op.getOperand(0).getType());
    auto to = cast<RankedTensorType>(op.getResult(0).getType());
    return to.getRank() < from.getRank() &&
           from.getDimSize(0) == written.front() &&
           llvm::is_contained(kernel.getReduced().axes, 0);
  }

  RankedTensorType map(Type type) const {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape;
    for (int64_t length : tensor.getShape())
      shape.push_back(
          meant[std::distance(written.begin(), llvm::find(written, length))]);
    return tensor.clone(shape);
  }

  NamedAttribute map(NamedAttribute attribute) const {
    if (auto splat = dyn_cast<SplatElementsAttr>(attribute.getValue()))
      attribute.setValue(splat.resizeSplat(map(splat.getType())));
    return attribute;
  }

private:
  ArrayRef<int64_t> written;
  SmallVector<int64_t> meant;
};
} // namespace

SmallVector<RankedTensorType>
mlir::binade::getStateTypes(OptimizerOp rule, func::FuncOp prepare,
                            ArrayRef<int64_t> shape) {
  auto f32 = Float32Type::get(rule.getContext());
  SmallVector<RankedTensorType> types(rule.getStates().size(),
                                      RankedTensorType::get(shape, f32));
  for (auto [index, type] : llvm::enumerate(types))
    if (!isElementwise(prepare, index))
      type = Lengths(prepare, shape).map(prepare.getArgumentTypes()[2 + index]);
  return types;
}

/// Returns what is wrong with the ops of `function`, which `callers` call.
static std::string explainBody(func::FuncOp function, ArrayRef<int64_t> lengths,
                               SmallVector<func::FuncOp> callers = {}) {
  if (llvm::is_contained(callers, function))
    return "calls itself";
  if (function.isExternal())
    return "has no body";
  callers.push_back(function);
  std::string wrong;
  function.walk([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
          function, call.getCalleeAttr());
      if (std::string inside = explainBody(callee, lengths, callers);
          !inside.empty())
        wrong = inside;
    }
    for (Type type : op->getResultTypes()) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      bool isKnown = tensor && llvm::all_of(tensor.getShape(), [&](int64_t x) {
                       return llvm::is_contained(lengths, x);
                     });
      if (!isKnown)
        wrong = "has a value of type '" + llvm::to_string(type) +
                "'; each axis must have the length of an axis of the parameter";
    }
    for (NamedAttribute attribute : op->getAttrs())
      if (auto elements = dyn_cast<ElementsAttr>(attribute.getValue());
          elements && elements.getShapedType().getRank() > 0 &&
          !elements.isSplat())
        wrong =
            "has a constant with different elements; constants must be splats";
  });
  return wrong;
}

std::string mlir::binade::explainViolation(func::FuncOp prepare,
                                           unsigned states, unsigned scalars) {
  TypeRange inputs = prepare.getArgumentTypes();
  Type f32 = Float32Type::get(prepare.getContext());
  auto isTensor = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() && tensor.getElementType() == f32;
  };
  if (inputs.size() != 2 + states + scalars)
    return "takes " + llvm::utostr(inputs.size()) + " values, expected " +
           llvm::utostr(2 + states + scalars) +
           ": parameter, gradient, states and scalars";
  if (!llvm::all_of(inputs, isTensor))
    return "takes arguments that are not f32 tensors";
  RankedTensorType parameter = getParameter(prepare);
  ArrayRef<int64_t> shape = parameter.getShape();
  if (shape.empty() || shape.size() > 2 ||
      (shape.size() == 2 && shape[0] == shape[1]))
    return "takes a parameter of type '" + llvm::to_string(parameter) +
           "', expected one axis, or two of different lengths";
  if (inputs[1] != parameter)
    return "takes a gradient whose shape differs from the parameter's";
  for (Type type : inputs.take_back(scalars))
    if (cast<RankedTensorType>(type).getRank() > 0)
      return "takes a scalar of type '" + llvm::to_string(type) + "'";
  TypeRange outputs = prepare.getResultTypes();
  unsigned result = 0;
  for (unsigned state = 0; state < states; ++state)
    if (!isElementwise(prepare, state))
      if (result == outputs.size() || outputs[result++] != inputs[2 + state])
        return "must first return the states whose shapes differ from the "
               "parameter's";
  for (Type type : outputs.drop_front(result))
    if (!isTensor(type) ||
        (type != parameter && cast<RankedTensorType>(type).getRank() > 0))
      return "returns a value of type '" + llvm::to_string(type) +
             "', expected a scalar or '" + llvm::to_string(parameter) + "'";
  return explainBody(prepare, shape);
}

std::string mlir::binade::explainViolation(func::FuncOp formula,
                                           TypeRange inputs,
                                           TypeRange outputs) {
  std::string wrong;
  llvm::raw_string_ostream stream(wrong);
  auto explain = [&](StringRef verb, TypeRange found, TypeRange expected) {
    auto print = [&](Type type) { stream << "'" << type << "'"; };
    stream << verb << " ";
    llvm::interleaveComma(found, stream, print);
    stream << ", expected ";
    llvm::interleaveComma(expected, stream, print);
  };
  TypeRange taken = formula.getArgumentTypes();
  if (taken.drop_back(drawsRandomValue(formula)) != inputs)
    explain("takes", taken, inputs);
  else if (TypeRange returned = formula.getResultTypes(); returned != outputs)
    explain("returns", returned, outputs);
  return wrong;
}

std::string mlir::binade::explainScalarsViolation(OptimizerOp rule,
                                                  func::FuncOp scalars) {
  Builder b(rule.getContext());
  SmallVector<Type> inputs(1 + rule.getHypers().size(), b.getF64Type());
  inputs.front() = b.getI64Type();
  SmallVector<Type> outputs(scalars.getNumResults(), b.getF64Type());
  return explainViolation(scalars, inputs, outputs);
}

std::string mlir::binade::explainUpdateViolation(func::FuncOp update,
                                                 func::FuncOp prepare,
                                                 unsigned states,
                                                 unsigned scalars) {
  unsigned updated = llvm::count_if(llvm::seq(states), [&](unsigned state) {
    return isElementwise(prepare, state);
  });
  unsigned values = prepare ? prepare.getNumResults() - (states - updated) : 0;
  SmallVector<Type> elements(2 + updated + scalars + values,
                             Float32Type::get(update.getContext()));
  return explainViolation(update, elements,
                          ArrayRef(elements).take_front(1 + updated));
}

/// Clones the ops of `function` for the shape of the parameter. `replace` may
/// be null.
static SmallVector<Value>
inlineBody(ImplicitLocOpBuilder &b, func::FuncOp function, ValueRange arguments,
           const Lengths &lengths, ReplaceReduction replace) {
  IRMapping inside;
  inside.map(function.getArguments(), arguments);
  auto look = [&](ValueRange values) {
    return llvm::map_to_vector(values,
                               [&](Value x) { return inside.lookup(x); });
  };
  for (Operation &op : function.front().without_terminator()) {
    SmallVector<Value> operands = look(op.getOperands());
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
          function, call.getCalleeAttr());
      inside.map(op.getResults(),
                 inlineBody(b, callee, operands, lengths, replace));
      continue;
    }
    SmallVector<Type> types;
    for (Type type : op.getResultTypes())
      types.push_back(lengths.map(type));
    SmallVector<NamedAttribute> attributes;
    for (NamedAttribute attribute : op.getAttrs())
      attributes.push_back(lengths.map(attribute));
    OperationState state(b.getLoc(), op.getName(), operands, types, attributes);
    Operation *created = b.create(state);
    if (replace && lengths.isReductionOfRows(op))
      inside.map(op.getResult(0), replace(created));
    else
      inside.map(op.getResults(), created->getResults());
  }
  return look(function.front().getTerminator()->getOperands());
}

SmallVector<int64_t> mlir::binade::getWrittenShape(func::FuncOp prepare,
                                                   ArrayRef<int64_t> shape) {
  return llvm::to_vector(Lengths(prepare, shape).getShape());
}

SmallVector<Value> mlir::binade::buildPrepare(ImplicitLocOpBuilder &b,
                                              func::FuncOp prepare,
                                              ArrayRef<int64_t> shape,
                                              ValueRange arguments,
                                              ReplaceReduction replace) {
  SmallVector<Value> results =
      inlineBody(b, prepare, arguments, Lengths(prepare, shape), replace);
  RankedTensorType parameter = getParameter(prepare);
  for (auto [type, value] : llvm::zip(prepare.getResultTypes(), results))
    if (type == parameter)
      value = buildReshape(b, value, shape);
  return results;
}

//===----------------------------------------------------------------------===//
// Decomposition of updates with a `prepare`
//===----------------------------------------------------------------------===//

namespace {
/// The operands of a `prepare`, in the shape for which it is written. Buffers
/// are reshaped first, so that no computed value has to be stored in memory.
class PrepareInputs {
public:
  PrepareInputs(ImplicitLocOpBuilder &b, OptimizerUpdateOp op,
                ArrayRef<int64_t> shape)
      : b(b), op(op), shape(shape) {}

  SmallVector<Value> build() {
    SmallVector<Value> inputs = {buildParameter(), buildGradient()};
    for (const KeptState &state : op.getKeptStates())
      inputs.push_back(buildState(state));
    llvm::append_range(inputs, op.getScalars());
    return inputs;
  }

  /// Returns the f32 value of the parameter.
  Value buildParameter() {
    switch (op.getMaster()) {
    case Master::F32:
      return view(op.getCompanion());
    case Master::SplitRound:
    case Master::SplitTrunc:
    case Master::Split8Bit:
      return JoinHalvesOp::create(b, view(op.getParameter()),
                                  view(op.getCompanion()),
                                  op.getMaster() == Master::SplitRound);
    default:
      return buildCast(b, view(op.getParameter()), b.getF32Type());
    }
  }

private:
  Value view(Value x) { return buildReshape(b, x, shape); }

  Value buildGradient() {
    Value gradient = buildCast(b, view(op.getGradient()), b.getF32Type());
    for (Value factor : op.getFactors())
      gradient =
          MulOp::create(b, gradient, buildBroadcast(b, factor, {}, shape));
    return gradient;
  }

  Value buildState(const KeptState &state) {
    SmallVector<Value> parts(op.getStates().slice(state.first, state.count));
    auto getShape = [](Value x) {
      return cast<RankedTensorType>(x.getType()).getShape();
    };
    // Codes of less than a byte have another shape.
    if (op.isElementwise(state) &&
        getShape(parts.front()) == getShape(op.getParameter()))
      parts.front() = view(parts.front());
    if (!state.format)
      return buildCast(b, parts.front(), b.getF32Type());
    return DequantizeOp::create(b, RankedTensorType::get(shape, b.getF32Type()),
                                parts, state.format);
  }

  ImplicitLocOpBuilder &b;
  OptimizerUpdateOp op;
  ArrayRef<int64_t> shape;
};
} // namespace

Value mlir::binade::buildWideParameter(ImplicitLocOpBuilder &b,
                                       OptimizerUpdateOp op) {
  auto type = cast<RankedTensorType>(op.getParameter().getType());
  return PrepareInputs(b, op, type.getShape()).buildParameter();
}

FailureOr<SmallVector<Value>>
OptimizerUpdateOp::decompose(ImplicitLocOpBuilder &b) {
  if (!getPrepareAttr())
    return failure();
  return decomposeUpdate(b, *this);
}

SmallVector<Value> mlir::binade::decomposeUpdate(ImplicitLocOpBuilder &b,
                                                 OptimizerUpdateOp op,
                                                 ReplaceReduction replace) {
  auto prepare = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      op, op.getPrepareAttr());
  auto type = cast<RankedTensorType>(op.getParameter().getType());
  ArrayRef<int64_t> shape = type.getShape();
  SmallVector<int64_t> written = getWrittenShape(prepare, shape);
  SmallVector<Value> values = buildPrepare(
      b, prepare, shape, PrepareInputs(b, op, written).build(), replace);

  // States that `update` does not handle are complete; the others are results
  // of the update that is created below.
  SmallVector<Value> results(1 + op.getStates().size()), states;
  SmallVector<unsigned> waiting = {0};
  SmallVector<Attribute> formats;
  unsigned done = 0;
  for (const KeptState &state : op.getKeptStates()) {
    if (op.isElementwise(state)) {
      for (unsigned part = 0; part < state.count; ++part) {
        waiting.push_back(1 + state.first + part);
        states.push_back(op.getStates()[state.first + part]);
      }
      if (ArrayAttr given = op.getFormatsAttr())
        formats.push_back(given[state.index]);
      continue;
    }
    Value before = op.getStates()[state.first];
    Value after =
        buildCast(b, values[done++], getElementTypeOrSelf(before.getType()));
    if (op.getSkip()) {
      auto type = cast<RankedTensorType>(after.getType());
      Value skips = buildBroadcast(b, op.getSkip(), {}, type.getShape());
      after = SelectOp::create(b, skips, before, after);
    }
    results[1 + state.first] = after;
  }
  if (Value companion = op.getCompanion()) {
    waiting.push_back(op.getStates().size());
    states.push_back(companion);
  }
  SmallVector<Type> types = {type};
  llvm::append_range(types, ValueRange(states).getTypes());
  auto update = OptimizerUpdateOp::create(
      b, types, op.getOptimizer(), op.getParameter(), op.getGradient(), states,
      op.getScalars(), ArrayRef(values).drop_front(done), op.getFactors(),
      op.getSkip(), op.getRandom(), op.getMaster(),
      op.getFormats() ? b.getArrayAttr(formats) : ArrayAttr(),
      FlatSymbolRefAttr(), op.getStorageAttr());
  for (auto [index, value] : llvm::zip(waiting, update->getResults()))
    results[index] = value;
  return results;
}
