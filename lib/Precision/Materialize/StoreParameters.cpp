//===- StoreParameters.cpp - Formats of parameters and states -------------===//

#include "StoreParameters.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/PortAttributes.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns the name and format of the master weight, remainder or compensation
/// of a parameter; an empty name if there is none.
static std::pair<StringRef, Type> getCompanion(StorageAttr storage) {
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
  case Master::Split8Bit:
    return {"remainder", IntegerType::get(context, 8)};
  case Master::Kahan:
    return {"compensation", storage.getParameter()};
  case Master::Residual:
    return {"residual", storage.getParameter()};
  }
  llvm_unreachable("all remedies are listed");
}

static StringRef getSuffix(unsigned part) {
  constexpr std::array<StringLiteral, 4> kSuffixes = {"", ".scale", ".power",
                                                      ".centre"};
  return kSuffixes[part];
}

/// Returns the scale of elements that all have this magnitude, or square root,
/// before it is rounded.
static float chooseStartScale(QuantizedAttr format, float magnitude) {
  constexpr float kMinHalf = 0x1p-24f, kMaxHalf = 65504.0f;
  float scale = magnitude / static_cast<float>(format.getLargest());
  return format.getScale().isF16() ? std::clamp(scale, kMinHalf, kMaxHalf)
                                   : scale;
}

static float roundToHalf(float number) {
  APFloat rounded(number);
  bool isExact;
  rounded.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &isExact);
  return rounded.convertToFloat();
}

/// Returns the code of an element, or of its root, that has been divided by its
/// scale.
static APInt encodeStart(CompandedAttr companded, float u) {
  if (companded.hasSoftsign())
    u = 2.0f * u / (1.0f + std::fabs(u));
  auto last = static_cast<float>(companded.getLargestCode());
  auto code = static_cast<int64_t>(std::floor(u * last + 0.5f));
  return {8, static_cast<uint64_t>(code), /*isSigned=*/false,
          /*implicitTrunc=*/true};
}

/// Returns the initial value of a quantized state whose elements are all
/// `value`: the quantized elements, or one of the tensors of scales.
static DenseElementsAttr buildStart(QuantizedAttr format, unsigned part,
                                    RankedTensorType type, float value) {
  auto fill = [&](const APFloat &number) {
    APFloat rounded = number;
    bool isExact;
    rounded.convert(cast<FloatType>(type.getElementType()).getFloatSemantics(),
                    APFloat::rmNearestTiesToEven, &isExact);
    return DenseElementsAttr::get(type, rounded);
  };
  float magnitude = std::fabs(value);
  if (format.takesRoots())
    magnitude = std::sqrt(magnitude);
  auto largest = static_cast<float>(format.getLargest());
  switch (part) {
  case 0:
    break;
  case 1:
    if (value == 0.0f)
      return fill(APFloat(format.getScaleOfZeros()));
    return fill(APFloat(format.getExpand()
                            ? 1.0f / largest
                            : chooseStartScale(format, magnitude)));
  case 2:
    return fill(APFloat(1.0f));
  default:
    return fill(APFloat(value == 0.0f ? 1.0f : magnitude));
  }
  float number = value == 0.0f ? 0.0f : std::copysign(largest, value);
  if (format.getScale().isF16() && value != 0.0f) {
    float divisor = chooseStartScale(format, magnitude);
    if (!format.getCompanded())
      divisor = roundToHalf(divisor);
    float quotient = magnitude / divisor;
    number = std::copysign(std::min(quotient, largest), value);
  }
  if (isa<FloatType>(type.getElementType()))
    return fill(APFloat(number));
  uint64_t code = 0;
  if (CodeBookAttr book = format.getBook()) {
    while (code + 1 < static_cast<uint64_t>(book.getValues().size()) &&
           number >= book.getThreshold(code + 1))
      ++code;
  } else if (CompandedAttr companded = format.getCompanded()) {
    return DenseElementsAttr::get(type, encodeStart(companded, number));
  } else {
    APFloat rounded(number);
    bool isExact;
    rounded.convert(format.getFormat().getFloatSemantics(),
                    APFloat::rmNearestTiesToEven, &isExact);
    code = rounded.bitcastToAPInt().getZExtValue();
  }
  if (format.isPacked())
    code |= code << 4;
  return DenseElementsAttr::get(type, APInt(8, code));
}

namespace {
class Storer {
public:
  Storer(func::FuncOp step, function_ref<void(Value, FloatType)> setFormat)
      : step(step), setFormat(setFormat), b(step.getLoc(), step.getContext()) {}

  LogicalResult run() {
    step.walk([&](OptimizerUpdateOp op) {
      if (isPending(op))
        updates.push_back(op);
    });
    for (OptimizerUpdateOp op : updates)
      if (!getPort(op))
        return op.emitOpError("updates a value that is not a parameter of "
                              "'@step', so its storage format cannot change");
    for (OptimizerUpdateOp op : updates)
      for (const KeptState &state : op.getKeptStates())
        if (needsParts(op, state) && !getStateArgument(op, state))
          return op.emitOpError("updates a state that is not an argument of "
                                "'@step', so it cannot be quantized");
    if (updates.empty())
      return success();
    addCompanions();
    for (OptimizerUpdateOp op : updates)
      store(op);
    addResults(step, results);
    step.setType(
        b.getFunctionType(step.front().getArgumentTypes(),
                          step.front().getTerminator()->getOperandTypes()));
    return success();
  }

private:
  /// Whether the types do not have the decided formats yet.
  static bool isPending(OptimizerUpdateOp op) {
    StorageAttr storage = op.getStorageAttr();
    if (!storage)
      return false;
    auto differs = [](Value value, FloatType format) {
      return format && getElementTypeOrSelf(value) != format;
    };
    return differs(op.getParameter(), storage.getParameter()) ||
           llvm::any_of(op.getKeptStates(), [&](const KeptState &state) {
             return needsParts(op, state) ||
                    differs(op.getStates()[state.first],
                            storage.getStateFormat(state.index));
           });
  }

  std::optional<Port> getPort(OptimizerUpdateOp op) {
    auto argument = dyn_cast<BlockArgument>(op.getParameter());
    return argument ? getArgument(step, argument.getArgNumber()) : std::nullopt;
  }

  /// Whether a state is to be quantized, but is not yet.
  static bool needsParts(OptimizerUpdateOp op, const KeptState &state) {
    return !state.format && op.getStorageAttr().getQuantized(state.index);
  }

  /// Returns the argument of the step that is the state, or null.
  BlockArgument getStateArgument(OptimizerUpdateOp op, const KeptState &state) {
    return dyn_cast<BlockArgument>(op.getStates()[state.first]);
  }
  float getStart(BlockArgument state) {
    auto init = step.getArgAttrOfType<DenseElementsAttr>(state.getArgNumber(),
                                                         kInitAttr);
    return init && init.isSplat()
               ? init.getSplatValue<APFloat>().convertToFloat()
               : 0.0f;
  }

  /// Changes the argument of each quantized state of `op` to its quantized
  /// elements, and appends arguments for scales.
  void addParts(OptimizerUpdateOp op, SmallVectorImpl<NewArgument> &arguments,
                PortAttributes &attributes) {
    StorageAttr storage = op.getStorageAttr();
    for (const KeptState &state : op.getKeptStates()) {
      if (!needsParts(op, state))
        continue;
      QuantizedAttr format = storage.getQuantized(state.index);
      BlockArgument argument = getStateArgument(op, state);
      unsigned number = argument.getArgNumber();
      auto type = cast<RankedTensorType>(argument.getType());
      SmallVector<RankedTensorType> parts = format.getParts(type.getShape());
      float start = getStart(argument);
      std::string name = getArgument(step, number)->name.str();
      for (auto [part, partType] : llvm::enumerate(parts)) {
        DenseElementsAttr init = buildStart(format, part, partType, start);
        if (part > 0) {
          arguments.push_back({name + getSuffix(part).str(), partType,
                               argument.getLoc(), init});
          continue;
        }
        argument.setType(partType);
        attributes.setOfArgument(number, kInitAttr, init);
      }
    }
  }

  /// Adds arguments for everything that is stored in addition. Adding them one
  /// by one would take quadratic time.
  void addCompanions() {
    SmallVector<NewArgument> arguments;
    SmallVector<OptimizerUpdateOp> owners;
    PortAttributes attributes(step);
    for (OptimizerUpdateOp op : updates) {
      addParts(op, arguments, attributes);
      owners.resize(arguments.size(), op);
      StorageAttr storage = op.getStorageAttr();
      Master master = storage.getMaster();
      auto [name, element] = getCompanion(storage);
      if (name.empty())
        continue;
      StringRef parameter = getPort(op)->name;
      auto type = cast<RankedTensorType>(op.getParameter().getType());
      arguments.push_back(
          {(name + "/" + parameter).str(), type.clone(element), op.getLoc(),
           CompanionAttr::get(b.getContext(), b.getStringAttr(parameter),
                              master)});
      owners.push_back(op);
    }
    attributes.apply();
    SmallVector<Value> values = addArguments(step, Role::State, arguments);
    for (auto [op, argument, value] : llvm::zip(owners, arguments, values))
      added[op].push_back({argument.name, value});
  }

  /// Whether the update rounds stochastically.
  static bool roundsStochastically(OptimizerUpdateOp op) {
    StorageAttr storage = op.getStorageAttr();
    return storage.getMaster() == Master::Stochastic ||
           llvm::any_of(op.getKeptStates(), [&](const KeptState &state) {
             QuantizedAttr format = storage.getQuantized(state.index);
             return format ? format.getStochastic()
                           : isa_and_present<StochasticAttr>(
                                 storage.getState(state.index));
           });
  }

  /// Sets the phase of the ops between `before` and `end`.
  void setPhases(Operation *before, Operation *end) {
    for (Operation *op = before ? before->getNextNode() : &step.front().front();
         op != end; op = op->getNextNode())
      if (!op->hasTrait<OpTrait::ConstantLike>())
        setPhase(op, Phase::Optimizer);
  }

  void store(OptimizerUpdateOp op) {
    StorageAttr storage = op.getStorageAttr();
    Master master = storage.getMaster();
    b.setLoc(op.getLoc());
    b.setInsertionPoint(op);
    Operation *before = op->getPrevNode();
    SmallVector<Value> random(op.getRandom());
    if (random.empty() && roundsStochastically(op))
      random = buildUpdateRandom(b, getRandomState(step),
                                 step.getArgument(getPort(op)->index));
    auto keep = [&](Value value, FloatType format) {
      if (format)
        setFormat(value, format);
    };
    keep(op.getParameter(), storage.getParameter());
    ArrayRef<std::pair<std::string, Value>> more = added[op];
    SmallVector<Value> states;
    SmallVector<std::string> names; // Empty for existing states.
    auto take = [&](unsigned count) {
      for (const auto &[name, value] : more.take_front(count)) {
        states.push_back(value);
        names.push_back(name);
      }
      more = more.drop_front(count);
    };
    SmallVector<Attribute> formats;
    for (const KeptState &state : op.getKeptStates()) {
      for (Value part : op.getStates().slice(state.first, state.count)) {
        keep(part, storage.getStateFormat(state.index));
        states.push_back(part);
        names.emplace_back();
      }
      if (needsParts(op, state))
        take(storage.getQuantized(state.index).countFactors());
      Attribute format = storage.getState(state.index);
      bool isPlain = !format || isa<TypeAttr>(format);
      formats.push_back(isPlain ? b.getUnitAttr() : format);
    }
    bool isPlain = llvm::all_of(formats, llvm::IsaPred<UnitAttr>);
    take(more.size());
    SmallVector<Type> types = {op.getParameter().getType()};
    llvm::append_range(types, ValueRange(states).getTypes());
    auto update = OptimizerUpdateOp::create(
        b, types, op.getOptimizer(), op.getParameter(), op.getGradient(),
        states, op.getScalars(), op.getValues(), op.getFactors(), op.getSkip(),
        random, master, isPlain ? ArrayAttr() : b.getArrayAttr(formats),
        op.getPrepareAttr(), storage);
    setPhases(before, op);
    SmallVector<Value> old = {update.getNewParameter()};
    for (auto [name, value] : llvm::zip(names, update.getNewStates())) {
      if (name.empty())
        old.push_back(value);
      else
        results.push_back({Role::State, name, value});
    }
    op->replaceAllUsesWith(old);
    op->erase();
  }

  func::FuncOp step;
  function_ref<void(Value, FloatType)> setFormat;
  ImplicitLocOpBuilder b;
  SmallVector<OptimizerUpdateOp> updates;
  /// Names and arguments of what each update stores in addition, in order.
  DenseMap<Operation *, SmallVector<std::pair<std::string, Value>>> added;
  SmallVector<NewResult> results;
};
} // namespace

LogicalResult
mlir::binade::storeParameters(func::FuncOp step,
                              function_ref<void(Value, FloatType)> setFormat) {
  return Storer(step, setFormat).run();
}
