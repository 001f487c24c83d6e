//===- AppendOptimizer.cpp - Append the updates of all parameters ---------===//

#include "CapUpdates.h"
#include "Formulas.h"
#include "ImportedRules.h"
#include "ParameterKinds.h"
#include "Settings.h"
#include "SkipZeros.h"
#include "binade/Container/JoinFirst.h"
#include "binade/Container/Printable.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Metrics.h"
#include "binade/IR/MissingFunction.h"
#include "binade/IR/Rules.h"
#include "binade/IR/Shards.h"
#include "binade/Optimizer/Passes.h"
#include "binade/Optimizer/RuleLibrary.h"

namespace mlir::binade {
#define GEN_PASS_DEF_APPENDOPTIMIZERPASS
#include "binade/Optimizer/Passes.h.inc"

namespace {
/// The largest f32 whose square is finite in f32.
static constexpr double kLargestNorm = 0x1.fffffep63;

/// PyTorch's guard against a norm of 0.
constexpr double kClipEpsilon = 1e-6;

/// What a run does with gradients that are not finite.
constexpr StringLiteral kSkip = "skip", kContinue = "continue";

/// Which parameters have weight decay.
constexpr StringLiteral kAll = "all", kMatrices = "matrices";

class StepBuilder {
public:
  StepBuilder(func::FuncOp function, double clip, StringRef onNonfinite)
      : function(function), clip(clip), guard(onNonfinite == kSkip),
        mode(onNonfinite == kShrink ? onNonfinite : ""),
        b(function.getLoc(), function.getContext()) {
    b.setInsertionPoint(function.front().getTerminator());
    for (const Port &port : getArguments(function, Role::Parameter))
      parameters[port.name] = function.getArgument(port.index);
    for (const Port &port : getResults(function, Role::Gradient))
      gradients[port.name] = getResultValue(function, port.index);
  }

  LogicalResult run(ArrayRef<Group> groups) {
    if (failed(choosePrepares(groups)))
      return failure();
    Operation *before = b.getInsertionBlock()->getTerminator()->getPrevNode();
    step = addArgument(function, Role::Step, "step", scalar(b.getI64Type()),
                       function.getLoc(), zeros(scalar(b.getI64Type())));
    addStates(groups);
    measureGradients();
    for (auto [index, group] : llvm::enumerate(groups))
      updateGroup(group, index);
    countStep();
    addResults(function, results);
    for (Operation *op = before ? before->getNextNode()
                                : &function.front().front();
         op; op = op->getNextNode())
      if (!op->hasTrait<OpTrait::ConstantLike>() &&
          !op->hasTrait<OpTrait::IsTerminator>())
        setPhase(op, Phase::Optimizer);
    return success();
  }

private:
  LogicalResult choosePrepares(ArrayRef<Group> groups) {
    for (const Group &group : groups)
      for (const TrainedParameter &trained : group.parameters) {
        ArrayRef<int64_t> shape =
            cast<RankedTensorType>(parameters.lookup(trained.name).getType())
                .getShape();
        OptimizerOp rule = group.rule;
        FailureOr<func::FuncOp> chosen = groupRows(
            choosePrepare(rule, trained.kind, shape, trained.form, mode),
            trained, shape);
        if (failed(chosen))
          return failure();
        func::FuncOp prepare = *chosen;
        prepares[trained.name] = prepare;
        if (!prepare && !mode.empty())
          return function.emitError("optimizer '")
                 << rule.getSymName() << "' has no '" << kShrink
                 << "' form for gradients that are not finite; on-nonfinite "
                    "must be "
                 << kSkip << " or " << kContinue;
        if (!prepare && !getPrepares(rule).empty())
          return emitUnsupportedKind(function.getLoc(), rule, trained);
      }
    return success();
  }

  /// Returns a copy of `prepare` for the heads of the parameter as rows.
  FailureOr<func::FuncOp> groupRows(func::FuncOp prepare,
                                    const TrainedParameter &trained,
                                    ArrayRef<int64_t> shape) {
    if (!prepare || trained.heads == 0)
      return prepare;
    if (getWholeRows(parameters.lookup(trained.name)))
      return function.emitError("parameter '")
             << trained.name << "' is divided by rows among processes, and '"
             << kHeadsSetting << "' needs all rows; leave it out";
    int64_t rows = getMatrix(shape).first;
    bool isByRow = getWrittenShape(prepare, shape).size() == 2;
    if (!isByRow || rows % trained.heads != 0)
      return function.emitError("parameter '")
             << trained.name << "' has " << rows << " row"
             << (rows == 1 ? "" : "s") << ", which cannot be divided into "
             << trained.heads << " heads; set '" << kHeadsSetting
             << "' in a group of other parameters";
    std::string name =
        (prepare.getName() + "." + kHeadsSetting + Twine(trained.heads)).str();
    auto module = function->getParentOfType<ModuleOp>();
    if (auto known = module.lookupSymbol<func::FuncOp>(name))
      return known;
    OpBuilder builder(prepare);
    auto copy = cast<func::FuncOp>(builder.clone(*prepare));
    copy.setName(name);
    copy->setAttr(kRowHeadsAttr, builder.getI64IntegerAttr(trained.heads));
    return copy;
  }

  RankedTensorType scalar(Type element) {
    return RankedTensorType::get({}, element);
  }
  TypedAttr zeros(RankedTensorType type) {
    return cast<TypedAttr>(b.getZeroAttr(type));
  }
  void addStates(ArrayRef<Group> groups) {
    SmallVector<NewArgument> arguments;
    for (const Group &group : groups)
      for (const TrainedParameter &trained : group.parameters) {
        StringRef name = trained.name;
        Value parameter = parameters.lookup(name);
        ArrayRef<int64_t> shape =
            cast<RankedTensorType>(parameter.getType()).getShape();
        OptimizerOp rule = group.rule;
        for (auto [state, type] :
             llvm::zip(rule.getStates().getAsRange<SettingAttr>(),
                       getStateTypes(rule, prepares.lookup(name), shape)))
          arguments.push_back(
              {(state.getName().getValue() + "/" + name).str(), type,
               parameter.getLoc(),
               DenseElementsAttr::get(type,
                                      static_cast<float>(state.getDefault()))});
      }
    SmallVector<Value> values = addArguments(function, Role::State, arguments);
    for (auto [argument, value] : llvm::zip(arguments, values))
      states.emplace_back(argument.name, value);
  }

  /// Computes the norm of all gradients and whether they are finite, and the
  /// factors of every gradient: the unscaling factor, then the clipping factor.
  void measureGradients() {
    SmallVector<Value> all;
    for (const Port &port : getResults(function, Role::Gradient))
      all.push_back(getResultValue(function, port.index));
    auto statistics = GradientStatisticsOp::create(b, scalar(b.getF64Type()),
                                                   scalar(b.getI1Type()), all);
    foundInf = statistics.getFoundInf();
    Value unscale = UnscaleFactorOp::create(b, scalar(b.getF32Type()),
                                            findInput(Role::Scaler, "scale"));
    factors.push_back(unscale);

    Value norm = MulOp::create(b, SqrtOp::create(b, statistics.getSquares()),
                               buildCast(b, unscale, b.getF64Type()));
    if (clip > 0.0) {
      Value limit = buildSplat(b, norm.getType(), clip);
      Value shifted =
          AddOp::create(b, norm, buildSplat(b, norm.getType(), kClipEpsilon));
      Value one = buildSplat(b, norm.getType(), 1.0);
      Value factor = MinOp::create(b, DivOp::create(b, limit, shifted), one);
      factors.push_back(buildCast(b, factor, b.getF32Type()));
    }
    // A caller that finds overflows itself needs no pass over the gradients.
    if (guard || !findInput(Role::Scaler, kFoundInf))
      results.push_back(
          {Role::Metric, "grad_norm", buildCast(b, norm, b.getF32Type())});
    if (guard)
      guardSquares(norm);
    obeyCaller();
    if (guard) {
      results.push_back({Role::Metric, kFoundInf.str(), foundInf});
    } else if (!mode.empty()) {
      results.push_back({Role::Metric, kAnsweredInf.str(), foundInf});
    }
  }

  /// Treats gradients as infinite if their squares overflow in f32 after
  /// clipping: an infinity in a second moment would stay forever, and would
  /// spread to the elements that share its scale.
  void guardSquares(Value norm) {
    if (clip > 0.0)
      norm = MinOp::create(b, norm, buildSplat(b, norm.getType(), clip));
    Value limit = buildSplat(b, norm.getType(), kLargestNorm);
    Value isHuge = CompareOp::create(b, norm, limit, Comparison::Greater);
    foundInf = SelectOp::create(b, isHuge, isHuge, foundInf);
  }

  /// Returns the argument with this role and name; null if there is none.
  Value findInput(Role role, StringRef name) {
    std::optional<Port> port = findArgument(function, role, name);
    return port ? Value(function.getArgument(port->index)) : Value();
  }

  /// Skips the step if the caller found a gradient that is not finite: then the
  /// input `found_inf` of role `scaler`, an f32, is not 0.
  void obeyCaller() {
    Value given = findInput(Role::Scaler, kFoundInf);
    if (!given)
      return;
    Value zero = buildSplat(b, cast<RankedTensorType>(given.getType()), 0.0);
    Value found = CompareOp::create(b, given, zero, Comparison::Greater);
    foundInf = guard ? SelectOp::create(b, found, found, foundInf) : found;
    guard = true;
  }

  void updateGroup(const Group &group, size_t index) {
    if (group.parameters.empty())
      return;
    OptimizerOp rule = group.rule;
    SmallVector<Value> hypers;
    for (auto [setting, value] :
         llvm::zip(rule.getHypers().getAsRange<SettingAttr>(), group.values)) {
      std::string name = setting.getName().str();
      if (index > 0)
        name += "@" + std::to_string(index);
      auto type = scalar(b.getF64Type());
      hypers.push_back(addArgument(function, Role::Hyper, name, type,
                                   function.getLoc(),
                                   DenseElementsAttr::get(type, value)));
    }
    func::FuncOp formula = findFormula(rule, ".scalars");
    SmallVector<Type> types(formula.getNumResults(), scalar(b.getF32Type()));
    auto scalars =
        OptimizerScalarsOp::create(b, types, rule.getSymName(), step, hypers);
    for (const TrainedParameter &trained : group.parameters)
      updateParameter(rule, trained.name, scalars.getScalars());
  }

  void updateParameter(OptimizerOp rule, StringRef name, ValueRange scalars) {
    Value parameter = parameters.lookup(name);
    ArrayRef<std::pair<std::string, Value>> own =
        ArrayRef(states).slice(updated, rule.getStates().size());
    updated += own.size();
    SmallVector<Value> old;
    for (const auto &[stateName, value] : own)
      old.push_back(value);
    SmallVector<Type> types = {parameter.getType()};
    llvm::append_range(types, ValueRange(old).getTypes());
    FlatSymbolRefAttr prepare;
    if (func::FuncOp function = prepares.lookup(name))
      prepare = FlatSymbolRefAttr::get(function);
    b.setLoc(parameter.getLoc());
    SmallVector<Value> random;
    if (drawsRandomValue(findFormula(rule, ".update")))
      random = buildUpdateRandom(b, getRandomState(function),
                                 cast<BlockArgument>(parameter));
    auto update = OptimizerUpdateOp::create(
        b, types, rule.getSymName(), parameter, gradients.lookup(name), old,
        scalars, ValueRange(), factors, guard ? foundInf : Value(), random,
        Master::None, ArrayAttr(), prepare, StorageAttr());
    results.push_back({Role::Parameter, name.str(), update.getNewParameter()});
    for (auto [state, value] : llvm::zip(own, update.getNewStates()))
      results.push_back({Role::State, state.first, value});
  }

  /// Counts the step unless it is skipped.
  void countStep() {
    b.setLoc(function.getLoc());
    Value next = AddOp::create(b, step, buildSplat(b, step.getType(), 1));
    if (guard)
      next = SelectOp::create(b, foundInf, step, next);
    results.push_back({Role::Step, "step", next});
  }

  func::FuncOp function;
  double clip;
  bool guard;
  /// The suffix of the names of `prepare` functions.
  StringRef mode;
  ImplicitLocOpBuilder b;
  llvm::StringMap<Value> parameters, gradients;
  /// The `prepare` of each parameter; null if the rule needs none.
  llvm::StringMap<func::FuncOp> prepares;
  /// The states of all parameters in the order of their updates. The first
  /// `updated` ones are used already.
  SmallVector<std::pair<std::string, Value>> states;
  size_t updated = 0;
  SmallVector<NewResult> results;
  Value step, foundInf;
  SmallVector<Value> factors;
};

struct AppendOptimizerPass
    : impl::AppendOptimizerPassBase<AppendOptimizerPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(append()))
      signalPassFailure();
  }

  LogicalResult append() {
    ModuleOp module = getOperation();
    auto function = module.lookupSymbol<func::FuncOp>(kGradientName);
    if (!function)
      return emitMissingFunction(module, kGradientName, "to complete");
    if (onNonfinite != kSkip && onNonfinite != kContinue &&
        onNonfinite != kShrink)
      return module.emitError("on-nonfinite must be skip, continue or shrink, "
                              "got '")
             << onNonfinite << "'";
    if (!(clip >= 0.0))
      return module.emitError("clip must be at least 0, got ")
             << formatNumber(clip);
    if (decay != kAll && decay != kMatrices)
      return module.emitError("decay must be all or matrices, got '")
             << decay << "'";

    FailureOr<SmallVector<TrainedParameter>> trained = getTrained(function);
    if (failed(trained))
      return failure();
    SmallVector<TrainedParameter> &parameters = *trained;
    SettingTexts texts = {.variant = "",
                          .common = llvm::to_vector(settings),
                          .groups = llvm::to_vector(groups),
                          .decaysOnlyMatrices = decay == kMatrices};
    FailureOr<SmallVector<OptimizerOp>> chosen =
        chooseRules(function, parameters, texts.variant);
    if (failed(chosen))
      return failure();
    SmallVector<OptimizerOp> rules = *chosen;
    if (onNonfinite == kShrink)
      for (OptimizerOp one : rules)
        replaceUpdate(one, onNonfinite);
    if (isSet(kSkipZeros))
      for (OptimizerOp one : rules)
        if (failed(skipZeros(one)))
          return failure();
    if (isSet(kUpdateCap))
      for (OptimizerOp one : rules)
        if (failed(capUpdates(one)))
          return failure();
    FailureOr<SmallVector<Group>> sorted =
        readSettings(rules, texts, parameters, module.getLoc());
    if (failed(sorted))
      return failure();
    warnOfRates(function, sorted->front().rule);
    if (failed(StepBuilder(function, clip, onNonfinite).run(*sorted)))
      return failure();
    dropResults(function);
    function.setName(kStepName);
    return success();
  }

  /// Warns if the graph had its learning rate as an input and the user sets
  /// none, so that the rule's default is used.
  void warnOfRates(func::FuncOp function, OptimizerOp rule) {
    auto rates = function->getAttrOfType<ArrayAttr>(kRatesAttr);
    function->removeAttr(kRatesAttr);
    auto hypers = rule.getHypers().getAsRange<SettingAttr>();
    auto rate = llvm::find_if(
        hypers, [](SettingAttr setting) { return setting.getName() == kRate; });
    std::string key = (kRate + "=").str();
    auto says = [&](StringRef text) { return text.contains(key); };
    if (rates && optimizer.empty() && rate != hypers.end() &&
        llvm::none_of(settings, says) && llvm::none_of(groups, says))
      emitWarning(function.getLoc())
          << "the learning rate, input '"
          << cast<StringAttr>(rates[0]).getValue()
          << "' of the graph, is not set: takes the default of '"
          << rule.getSymName() << "', " << formatNumber((*rate).getDefault());
  }

  static FailureOr<SmallVector<TrainedParameter>>
  getTrained(func::FuncOp function) {
    llvm::StringMap<Value> arguments;
    for (const Port &port : getArguments(function, Role::Parameter))
      arguments[port.name] = function.getArgument(port.index);
    SmallVector<TrainedParameter> parameters;
    for (const Port &port : getResults(function, Role::Gradient)) {
      Value parameter = arguments.lookup(port.name);
      Type element = getElementTypeOrSelf(parameter);
      if (element.getIntOrFloatBitWidth() > 32)
        return mlir::emitError(parameter.getLoc())
               << "parameter '" << port.name << "' is " << element
               << ", and updates are computed in f32: export the model in f32 "
                  "(module.float() in PyTorch), or freeze the parameter";
      parameters.push_back(
          {.name = port.name,
           .kind = getParameterKind(parameter),
           .isMatrix = cast<ShapedType>(parameter.getType()).getRank() >= 2});
    }
    if (!parameters.empty())
      return parameters;
    return refuse(function);
  }

  /// Reports why no parameter is trained. Frozen parameters are buffers that
  /// the step does not change.
  static LogicalResult refuse(func::FuncOp function) {
    std::vector<std::string> frozen;
    for (const Port &port : getArguments(function, Role::Buffer))
      if (isa<FloatType>(getElementTypeOrSelf(
              function.getArgument(port.index).getType())) &&
          !findResult(function, Role::Buffer, port.name))
        frozen.push_back(::binade::quote(port.name));
    InFlightDiagnostic error =
        mlir::emitError(function->getParentOp()->getLoc());
    error << "has no parameter to train";
    if (frozen.empty()) {
      error.attachNote()
          << "an ONNX model trains the initializers in its metadata "
             "'binade.trainable', or without it those with external data; "
             "--train GLOB selects floating-point initializers, '*' all of "
             "them";
      return error;
    }
    constexpr size_t kShown = 4;
    error << ": all are frozen: " << ::binade::joinFirst(frozen, kShown);
    error.attachNote()
        << "--freeze freezes the parameters that it matches, metadata "
           "'binade.frozen' those with requires_grad=False in PyTorch; --train "
           "GLOB trains those that it matches, if the loss depends on them";
    return error;
  }

  /// Returns the imported rules if the user names none, else adds the shipped
  /// rules to the module. Removes unused imported rules.
  FailureOr<SmallVector<OptimizerOp>>
  chooseRules(func::FuncOp function,
              MutableArrayRef<TrainedParameter> parameters,
              StringRef &variant) {
    SmallVector<OptimizerOp> rules =
        takeImportedRules(function, parameters, /*areUsed=*/optimizer.empty());
    if (!rules.empty())
      return rules;
    StringRef name = kDefaultRule;
    if (!optimizer.empty())
      name = optimizer;
    std::tie(name, variant) = splitVariant(name);
    FailureOr<Rule> rule = loadRule(name, &getContext());
    if (failed(rule))
      return failure();
    OpBuilder b = OpBuilder::atBlockBegin(getOperation().getBody());
    for (Rule *one = &*rule; one; one = one->others.get()) {
      for (Operation &op : one->module->getBody()->getOperations())
        b.clone(op);
      rules.push_back(getOperation().lookupSymbol<OptimizerOp>(
          one->optimizer.getSymName()));
    }
    return rules;
  }

  /// Replaces the usual `update` by the one of this mode, if the rule has it.
  static void replaceUpdate(OptimizerOp rule, StringRef mode) {
    func::FuncOp usual = findFormula(rule, ".update");
    func::FuncOp own = findFormula(rule, (".update." + mode).str());
    if (!own)
      return;
    StringAttr name = usual.getSymNameAttr();
    usual.erase();
    own.setSymNameAttr(name);
  }

  /// Whether the user sets a setting that a rule has only then, for any
  /// parameter.
  bool isSet(StringRef setting) {
    auto says = [&](StringRef text) { return text.contains(setting); };
    return llvm::any_of(settings, says) || llvm::any_of(groups, says);
  }

  void dropResults(func::FuncOp function) {
    llvm::BitVector dropped(function.getNumResults());
    for (unsigned index = 0; index < dropped.size(); ++index) {
      std::optional<Port> port = getResult(function, index);
      dropped[index] = !port ||
                       (port->role == Role::Gradient && !keepGradients) ||
                       (port->role == Role::Output && !keepOutputs);
    }
    function.front().getTerminator()->eraseOperands(dropped);
    (void)function.eraseResults(dropped);
  }
};
} // namespace
} // namespace mlir::binade
