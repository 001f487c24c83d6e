//===- BinadeDialect.cpp - Registration, attribute checks -----------------===//

#include "binade/Container/Suggest.h"
#include "binade/IR/Accuracy.h"
#include "binade/IR/AlarmRequests.h"
#include "binade/IR/Batches.h"
#include "binade/IR/Binade.h"
#include "binade/IR/ExchangeOps.h"
#include "binade/IR/Exported.h"
#include "binade/IR/FrozenParameters.h"
#include "binade/IR/HadamardOp.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Release.h"
#include "binade/IR/Rules.h"
#include "binade/IR/Subgradient.h"
#include "binade/IR/SumInOrderOp.h"
#include "binade/IR/Watch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::binade;

#include "binade/IR/BinadeDialect.cpp.inc"
#include "binade/IR/DelayedScales.h"
#include "binade/IR/Shards.h"

#include "binade/Interfaces/AlgebraOpInterface.cpp.inc"
#include "binade/Interfaces/DifferentiableOpInterface.cpp.inc"
#include "binade/Interfaces/ElementwiseOpInterface.cpp.inc"
#include "binade/Interfaces/KernelOpInterface.cpp.inc"
#include "binade/Interfaces/LayoutOpInterface.cpp.inc"
#include "binade/Interfaces/PrecisionOpInterface.cpp.inc"
#include "binade/Interfaces/TrainingOpInterface.cpp.inc"

void BinadeDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "binade/IR/Ops/Elementwise.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Binary.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Cast.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Contraction.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Convolution.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Reduction.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Normalization.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Attention.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Embedding.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Exchange.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Loss.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Shape.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Random.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/LossScaling.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Optimizer.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Quantization.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Hadamard.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/SumInOrder.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Monitor.cpp.inc"
      ,
#define GET_OP_LIST
#include "binade/IR/Ops/Kernel.cpp.inc"
      >();
}

std::optional<Dialect::ParseOpHook>
BinadeDialect::getParseOperationHook(StringRef) const {
  return ParseOpHook([](OpAsmParser &parser, OperationState &state) {
    std::vector<std::string> names;
    for (RegisteredOperationName name :
         parser.getContext()->getRegisteredOperations())
      if (isa<BinadeDialect>(name.getDialect()))
        names.push_back(name.stripDialect().str());
    // The parser begins the message with the name.
    return ParseResult(
        parser.emitError(parser.getNameLoc(), "is unknown")
        << ::binade::suggest(state.name.stripDialect().str(), names));
  });
}

Operation *BinadeDialect::materializeConstant(OpBuilder &builder,
                                              Attribute value, Type type,
                                              Location loc) {
  auto typed = dyn_cast<TypedAttr>(value);
  if (!typed || typed.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, typed);
}

//===----------------------------------------------------------------------===//
// Attributes of any op, argument or result
//===----------------------------------------------------------------------===//

template <typename Expected>
static LogicalResult expect(Operation *op, NamedAttribute attribute,
                            StringRef what) {
  if (isa<Expected>(attribute.getValue()))
    return success();
  return op->emitOpError() << "expects '" << attribute.getName().getValue()
                           << "' to be " << what << ", got "
                           << attribute.getValue();
}

static LogicalResult expectPositive(Operation *op, NamedAttribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute.getValue());
  if (number && number.getValue().isStrictlyPositive())
    return success();
  return op->emitOpError() << "expects '" << attribute.getName().getValue()
                           << "' to be a positive integer, got "
                           << attribute.getValue();
}

LogicalResult
BinadeDialect::verifyOperationAttribute(Operation *op,
                                        NamedAttribute attribute) {
  StringRef name = attribute.getName().getValue();
  if (name == kPhaseAttr)
    return expect<PhaseAttr>(op, attribute, "a #binade.phase");
  if (name == kPolicyAttr)
    return expect<PolicyAttr>(op, attribute, "a #binade.policy");
  if (name == kKernelAttr)
    return expect<ScheduleAttr>(op, attribute, "a #binade.schedule");
  if (name == kBatchesAttr || name == kAmaxHalfLifeAttr)
    return expect<IntegerAttr>(op, attribute, "an integer");
  if (name == kSavedAttr)
    return expect<ArrayAttr>(op, attribute, "a list");
  if (name == kComputationAttr || name == kExchangeAttr)
    return expect<StringAttr>(op, attribute, "a string");
  if (name == kBackwardAttr)
    return expect<StringAttr>(op, attribute, "a string");
  if (name == kRatesAttr || name == kStatisticsAttr)
    return expect<ArrayAttr>(op, attribute, "a list");
  if (name == kAlarmsAttr && !areAlarmRequests(attribute.getValue()))
    return op->emitOpError() << "expects '" << name
                             << "' to be {rules = [{word = \"...\"}, ...]}, "
                                "got "
                             << attribute.getValue();
  if (name == kAlarmsAttr)
    return success();
  if (name == kEveryAttr || name == kRowHeadsAttr)
    return expectPositive(op, attribute);
  if (name == kWatchAttr)
    return expect<DictionaryAttr>(op, attribute, "a dictionary");
  if (name == kElidedAttr || name == kRecomputedAttr || name == kBatchedAttr ||
      name == kDetachedAttr)
    return expect<UnitAttr>(op, attribute, "an attribute without a value");
  if (name == kTiesAttr)
    return getTies(op) ? success()
                       : op->emitOpError()
                             << "expects '" << name
                             << "' to be \"share\", \"first\" or \"flat\", "
                                "got "
                             << attribute.getValue();
  if (name == kPaddingIndexAttr || name == kReleaseAttr)
    return expect<IntegerAttr>(op, attribute, "an integer");
  if (name == kTargetAttr)
    return expect<TargetAttr>(op, attribute, "a #binade.target");
  if (name == kFallbackAttr)
    return expect<DictionaryAttr>(op, attribute, "a dictionary");
  if (name == kAccuracyAttr) {
    FloatType format = getAccuracy(op);
    return format && getAccuracyFor(format) == format
               ? success()
               : op->emitOpError()
                     << "expects '" << name << "' to be bf16 or f16, got "
                     << attribute.getValue();
  }
  return op->emitOpError() << "has an unknown attribute '" << name << "'";
}

static LogicalResult verifyPort(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName().getValue();
  if (name == kRoleAttr)
    return expect<RoleAttr>(op, attribute, "a #binade.role");
  if (name == kNameAttr)
    return expect<StringAttr>(op, attribute, "a string");
  if (name == kEveryAttr)
    return expectPositive(op, attribute);
  return op->emitOpError() << "has an unknown attribute '" << name
                           << "' on an argument or result";
}

LogicalResult
BinadeDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index,
                                        NamedAttribute attribute) {
  if (attribute.getName().getValue() == kOptimizerAttr)
    return expect<FlatSymbolRefAttr>(op, attribute, "a rule of the module");
  Type type = cast<FunctionOpInterface>(op).getArgumentTypes()[index];
  if (attribute.getName().getValue() == kRowGroupsAttr ||
      attribute.getName().getValue() == kFrozenAttr)
    return expect<UnitAttr>(op, attribute, "an attribute without a value");
  if (attribute.getName().getValue() == kShardAttr)
    return isShard(attribute.getValue(), type)
               ? success()
               : op->emitOpError()
                     << "expects '" << kShardAttr
                     << "' to be the first row and the rows of the whole "
                        "parameter, array<i64: first, rows>, for an argument "
                        "of type "
                     << type << ", got " << attribute.getValue();
  if (attribute.getName().getValue() == kWatchAttr)
    return expect<DictionaryAttr>(op, attribute, "a dictionary");
  if (attribute.getName().getValue() != kInitAttr)
    return verifyPort(op, attribute);
  Attribute value = attribute.getValue();
  if (isa<RandomAttr>(value)) {
    if (isa<FloatType>(getElementTypeOrSelf(type)))
      return success();
    return op->emitOpError() << "initializes argument " << index
                             << " with random values, but it has type " << type;
  }
  if (auto companion = dyn_cast<CompanionAttr>(value)) {
    Master master = companion.getMaster();
    if (master == Master::None || master == Master::Stochastic)
      return op->emitOpError()
             << "initializes argument " << index
             << " by #binade.companion, but '" << stringifyMaster(master)
             << "' stores nothing in addition to the parameter";
    return success();
  }
  if (isa<ElementsAttr, ExternalAttr>(value)) {
    Type given = cast<TypedAttr>(value).getType();
    // The initial value may be f32 for a 16-bit argument, which it is rounded
    // to.
    Type element = getElementTypeOrSelf(type);
    auto tensor = dyn_cast<RankedTensorType>(given);
    bool isRounded = tensor && tensor.getElementType().isF32() &&
                     (element.isBF16() || element.isF16()) &&
                     tensor.clone(element) == type;
    if (given == type || isRounded)
      return success();
    return op->emitOpError()
           << "initial value of argument " << index << " has type " << given
           << ", the argument " << type;
  }
  return op->emitOpError() << "expects '" << kInitAttr
                           << "' to be elements, #binade.external, "
                              "#binade.random or #binade.companion, got "
                           << value;
}

LogicalResult
BinadeDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                           NamedAttribute attribute) {
  return verifyPort(op, attribute);
}
