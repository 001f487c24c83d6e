//===- Optimizer.cpp - Optimizer rules and updates ------------------------===//

#include "binade/IR/Rules.h"
#include "binade/IR/Shards.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Optimizer.cpp.inc"

Schedule GradientStatisticsOp::getSchedule() { return Schedule::MultiTensor; }
unsigned GradientStatisticsOp::getSegments() { return getGradients().size(); }

FailureOr<SmallVector<Value>>
GradientStatisticsOp::buildWithoutElements(ImplicitLocOpBuilder &b) {
  SmallVector<Value> gradients = dropEmpty(getGradients());
  if (gradients.empty())
    return buildZeros(b, getResultTypes());
  auto rest = GradientStatisticsOp::create(b, getResultTypes(), gradients);
  return SmallVector<Value>(rest.getResults());
}

/// Checks that `variant` has valid values for hyper-parameters of `rule`.
static LogicalResult verifyVariant(OptimizerOp rule, NamedAttribute variant) {
  auto values = dyn_cast<DictionaryAttr>(variant.getValue());
  if (!values)
    return rule.emitOpError("expects values by name in variant '")
           << variant.getName().getValue() << "'";
  auto hypers = rule.getHypers().getAsRange<SettingAttr>();
  for (NamedAttribute value : values) {
    auto number = dyn_cast<FloatAttr>(value.getValue());
    auto hyper = llvm::find_if(hypers, [&](SettingAttr setting) {
      return setting.getName() == value.getName();
    });
    if (!number || hyper == hypers.end())
      return rule.emitOpError(
                 "expects numbers for hyper-parameters in variant '")
             << variant.getName().getValue() << "', got " << value.getName()
             << " = " << value.getValue();
    std::string problem = (*hyper).explainViolation(number.getValueAsDouble());
    if (!problem.empty())
      return rule.emitOpError("has an illegal variant: ") << problem;
  }
  return success();
}

/// Checks that the attribute `name`, described by `what`, is a list of
/// `Element`.
template <typename Element>
static LogicalResult verifyList(OptimizerOp rule, StringAttr name,
                                StringRef what) {
  auto list = rule->getAttrOfType<ArrayAttr>(name);
  for (Attribute element : list ? list.getValue() : ArrayRef<Attribute>())
    if (!isa<Element>(element))
      return rule.emitOpError("expects '")
             << name.getValue() << "' to be a list of " << what << ", got "
             << element;
  return success();
}

LogicalResult OptimizerOp::verify() {
  StringRef setting = "#binade.setting<\"name\" = initial value>";
  if (failed(verifyList<SettingAttr>(*this, getStatesAttrName(), setting)) ||
      failed(verifyList<SettingAttr>(*this, getHypersAttrName(), setting)) ||
      failed(verifyList<ParameterKindAttr>(*this, getKindsAttrName(),
                                           "#binade.parameter_kind")))
    return failure();
  if (DictionaryAttr variants = getVariantsAttr())
    for (NamedAttribute variant : variants)
      if (failed(verifyVariant(*this, variant)))
        return failure();
  for (ArrayAttr settings : {getStates(), getHypers()}) {
    llvm::SmallDenseSet<StringAttr> names;
    for (auto setting : settings.getAsRange<SettingAttr>()) {
      if (!names.insert(setting.getName()).second)
        return emitOpError("names ") << setting.getName() << " twice";
      std::string problem = setting.explainViolation(setting.getDefault());
      // A hyper-parameter may have no default; a state may not.
      if (!problem.empty() && (hasDefault(setting) || settings == getStates()))
        return emitOpError("has an illegal default: ") << problem;
    }
  }
  return success();
}

/// Returns the rule and its formula; emits an error for the one that is
/// missing.
static FailureOr<std::pair<OptimizerOp, func::FuncOp>>
lookUpRule(Operation *op, FlatSymbolRefAttr optimizer, StringAttr formula,
           SymbolTableCollection &symbols) {
  auto rule = symbols.lookupNearestSymbolFrom<OptimizerOp>(op, optimizer);
  if (!rule)
    return op->emitOpError("names optimizer ")
           << optimizer << ", which is not in this module";
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, formula);
  if (!function)
    return op->emitOpError("needs function '@")
           << formula.getValue() << "', which is not in this module";
  return std::pair(rule, function);
}

/// Emits what is `wrong` with the formula that `op` calls, unless it is empty.
static LogicalResult verifyFormula(Operation *op, func::FuncOp formula,
                                   const std::string &wrong) {
  if (wrong.empty())
    return success();
  return op->emitOpError("calls '@")
         << formula.getName() << "', which " << wrong;
}

LogicalResult
OptimizerScalarsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto found = lookUpRule(*this, getOptimizerAttr(), getFormula(), symbols);
  if (failed(found))
    return failure();
  auto [rule, function] = *found;
  if (getHypers().size() != rule.getHypers().size())
    return emitOpError("has ")
           << getHypers().size() << " hyper-parameters, optimizer "
           << getOptimizerAttr() << " has " << rule.getHypers().size();
  if (failed(verifyFormula(*this, function,
                           explainScalarsViolation(rule, function))))
    return failure();
  if (getScalars().size() != function.getNumResults())
    return emitOpError("has ")
           << getScalars().size() << " results, '@" << getFormula().getValue()
           << "' has " << function.getNumResults();
  return success();
}

void OptimizerUpdateOp::build(OpBuilder &b, OperationState &state,
                              TypeRange types, StringRef optimizer,
                              Value parameter, Value gradient,
                              ValueRange states, ValueRange scalars,
                              ValueRange factors, Value skip,
                              FlatSymbolRefAttr prepare) {
  build(b, state, types, optimizer, parameter, gradient, states, scalars,
        ValueRange(), factors, skip, ValueRange(), Master::None, ArrayAttr(),
        prepare, StorageAttr());
}

Schedule OptimizerUpdateOp::getSchedule() {
  return getPrepareAttr() ? Schedule::Library : Schedule::MultiTensor;
}

StringAttr OptimizerUpdateOp::getFormula() {
  return StringAttr::get(getContext(), getOptimizer() + ".update");
}

/// Whether `master` stores a tensor in addition to the parameter.
static bool keepsTensor(Master master) {
  return master != Master::None && master != Master::Stochastic;
}

Value OptimizerUpdateOp::getCompanion() {
  return keepsTensor(getMaster()) ? getStates().back() : Value();
}

OperandRange OptimizerUpdateOp::getRuleStates() {
  return getStates().drop_back(keepsTensor(getMaster()));
}

SmallVector<KeptState> OptimizerUpdateOp::getKeptStates() {
  SmallVector<KeptState> kept;
  unsigned count = getRuleStates().size(), first = 0;
  SmallVector<Attribute> formats(count, UnitAttr());
  if (ArrayAttr given = getFormatsAttr())
    formats.assign(given.begin(), given.end());
  for (auto [index, attribute] : llvm::enumerate(formats)) {
    auto format = dyn_cast_if_present<QuantizedAttr>(attribute);
    unsigned parts = format ? 1 + format.countFactors() : 1;
    bool isRandom = format ? format.getStochastic()
                           : isa_and_present<StochasticAttr>(attribute);
    kept.push_back(
        {static_cast<unsigned>(index), format, first, parts, isRandom});
    first += parts;
  }
  return kept;
}

bool OptimizerUpdateOp::roundsRandomly() {
  return getMaster() == Master::Stochastic ||
         llvm::any_of(getKeptStates(),
                      [](const KeptState &state) { return state.isRandom; });
}

bool OptimizerUpdateOp::isElementwise(const KeptState &state) {
  auto prepare = getPrepareAttr()
                     ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
                           *this, getPrepareAttr())
                     : func::FuncOp();
  // Shapes would not tell: a parameter may be a single number.
  return binade::isElementwise(prepare, state.index);
}

/// Checks an update whose `prepare` is not inlined yet.
static LogicalResult verifyPrepare(OptimizerUpdateOp op, OptimizerOp rule,
                                   func::FuncOp prepare) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(op.getParameter().getType()).getShape();
  size_t states = rule.getStates().size();
  if (std::string wrong =
          explainViolation(prepare, states, op.getScalars().size());
      !wrong.empty())
    return op.emitOpError("is prepared by '@")
           << prepare.getName() << "', which " << wrong;
  SmallVector<KeptState> kept = op.getKeptStates();
  if (kept.size() != states) // C2
    return op.emitOpError("has ") << kept.size() << " states, optimizer "
                                  << op.getOptimizerAttr() << " has " << states;
  for (auto [state, type] :
       llvm::zip(kept, getStateTypes(rule, prepare, shape)))
    if (Value first = op.getStates()[state.first];
        !state.format && cast<RankedTensorType>(first.getType()).getShape() !=
                             type.getShape()) // C1
      return op.emitOpError("expects a state of type ")
             << type << ", got " << first.getType();
  return success();
}

LogicalResult
OptimizerUpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto found = lookUpRule(*this, getOptimizerAttr(), getFormula(), symbols);
  if (failed(found))
    return failure();
  auto [rule, function] = *found;
  if (FlatSymbolRefAttr name = getPrepareAttr()) {
    auto prepared =
        lookUpRule(*this, getOptimizerAttr(), name.getAttr(), symbols);
    if (failed(prepared))
      return failure();
    if (failed(verifyPrepare(*this, rule, prepared->second)))
      return failure();
    return verifyFormula(*this, function,
                         explainUpdateViolation(function, prepared->second,
                                                rule.getStates().size(),
                                                getScalars().size()));
  }
  bool draws = roundsRandomly() || drawsRandomValue(function);
  size_t numbers = getRandom().size();
  if (draws ? numbers < 2 || numbers > 3 : numbers != 0) // C4
    return emitOpError("has ") << numbers << " random numbers, expected "
                               << (draws ? "2 or 3" : "0");
  size_t states = getKeptStates().size();
  // States that `update` does not handle are computed by the inlined `prepare`.
  if (getValues().empty() && states != rule.getStates().size()) // C2
    return emitOpError("has ")
           << states << " states, optimizer " << getOptimizerAttr() << " has "
           << rule.getStates().size();
  size_t expected = 2 + states + getScalars().size() + getValues().size() +
                    drawsRandomValue(function);
  if (function.getNumArguments() != expected)
    return emitOpError("passes ")
           << expected << " values to '@" << getFormula().getValue()
           << "', which takes " << function.getNumArguments();
  SmallVector<Type> elements(expected - drawsRandomValue(function),
                             Float32Type::get(getContext()));
  return verifyFormula(
      *this, function,
      explainViolation(function, elements,
                       ArrayRef(elements).take_front(1 + states)));
}

static LogicalResult verifyMaster(OptimizerUpdateOp op) {
  Master master = op.getMaster();
  auto parameter = cast<FloatType>(getElementTypeOrSelf(op.getParameter()));
  if (master != Master::None) // C3
    if (std::string wrong = StorageAttr::explainViolation(
            parameter, master, Attribute(), FloatType());
        !wrong.empty())
      return op.emitOpError(wrong);
  Builder b(op.getContext());
  Type kept = parameter;
  if (master == Master::F32)
    kept = b.getF32Type();
  else if (master != Master::Kahan && master != Master::Residual)
    kept = b.getIntegerType(master == Master::Split8Bit ? 8 : 16);
  if (Value companion = op.getCompanion();
      companion && getElementTypeOrSelf(companion) != kept) // C3
    return op.emitOpError("expects ")
           << kept << " in the last state, which '" << stringifyMaster(master)
           << "' keeps, got " << getElementTypeOrSelf(companion);
  return success();
}

/// Whether `op` is in a kernel. A multi-tensor kernel is written for a vector
/// of unknown length, so that its groups cannot be counted.
static bool isInKernel(Operation *op) {
  return op->getParentOp() && op->getParentOp()->hasAttr(kKernelAttr);
}

/// The largest group of elements: no more than a task has.
static constexpr int64_t kLargestGroup = 16384;

/// The number of states for which there are random words.
static constexpr unsigned kRandomStates = 3;

/// Checks the storage of one state.
static LogicalResult verifyState(OptimizerUpdateOp op, const KeptState &kept) {
  if (kept.isRandom && kept.index >= kRandomStates) // C7
    return op.emitOpError("rounds state ")
           << kept.index << " stochastically, but only the first "
           << kRandomStates << " states can be";
  auto parameter = cast<RankedTensorType>(op.getParameter().getType());
  TypeRange types =
      ValueRange(op.getStates()).slice(kept.first, kept.count).getTypes();
  if (!kept.format) {
    auto state = cast<RankedTensorType>(types.front());
    if (!isa<FloatType>(state.getElementType()))
      return op.emitOpError("expects states of floats, got ") << state;
    if (kept.isRandom && !state.getElementType().isBF16() &&
        !state.getElementType().isF16())
      return op.emitOpError("rounds a state stochastically to bf16 or f16, not "
                            "to ")
             << state.getElementType();
    if (!op.getPrepareAttr() && state.getShape() != parameter.getShape()) // C1
      return op.emitOpError(
                 "expects gradient and states of the parameter's shape ")
             << parameter;
    return success();
  }
  bool isGrouped = kept.format.getGranularity() == Granularity::PerGroup;
  int64_t size = isGrouped ? kept.format.getExtent().front() : 0;
  if (size < kMinStateGroup || size > kLargestGroup ||
      !llvm::isPowerOf2_64(size)) // C5
    return op.emitOpError("keeps states in formats 'per_group' of a power of "
                          "two from ")
           << kMinStateGroup << " to " << kLargestGroup << ", not in "
           << kept.format;
  for (auto [part, type] :
       llvm::zip(kept.format.getParts(parameter.getShape()), types)) {
    bool fits = isInKernel(op)
                    ? getElementTypeOrSelf(type) == part.getElementType()
                    : type == part;
    if (!fits) // C1
      return op.emitOpError("expects ") << kept.format << " to keep a state as "
                                        << part << ", got " << type;
  }
  return success();
}

LogicalResult OptimizerUpdateOp::verify() {
  if (getStates().empty() && keepsTensor(getMaster())) // C2
    return emitOpError("has no state for what '")
           << stringifyMaster(getMaster()) << "' keeps";
  auto parameter = cast<RankedTensorType>(getParameter().getType());
  auto sameShape = [&](Value x) { // C1
    return cast<RankedTensorType>(x.getType()).getShape() ==
           parameter.getShape();
  };
  if (!sameShape(getGradient()) ||
      (getCompanion() && !sameShape(getCompanion())))
    return emitOpError("expects gradient and states of the parameter's shape ")
           << parameter;
  for (Value value : getValues()) // C6
    if (getPrepareAttr() ||
        (cast<RankedTensorType>(value.getType()).getRank() > 0 &&
         !sameShape(value)))
      return emitOpError("expects values only after 'prepare', as scalars or "
                         "with the parameter's shape ")
             << parameter << ", got " << value.getType();
  SmallVector<KeptState> kept = getKeptStates();
  size_t parts = kept.empty() ? 0 : kept.back().first + kept.back().count;
  if (parts != getRuleStates().size()) // C2
    return emitOpError("has ")
           << getRuleStates().size()
           << " tensors of states, but 'formats' describe " << parts;
  for (const KeptState &state : kept)
    if (failed(verifyState(*this, state)))
      return failure();
  if (getNewParameter().getType() != parameter ||
      getNewStates().getTypes() != getStates().getTypes())
    return emitOpError("expects results of the types of parameter and states");
  return verifyMaster(*this);
}

/// A parameter without elements is not updated, and neither are its states.
FailureOr<SmallVector<Value>>
OptimizerUpdateOp::buildWithoutElements(ImplicitLocOpBuilder &) {
  SmallVector<Value> kept = {getParameter()};
  llvm::append_range(kept, getStates());
  return kept;
}
