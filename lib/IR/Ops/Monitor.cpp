//===- Monitor.cpp - Statistics of values ---------------------------------===//

#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Monitor.cpp.inc"

static SmallVector<Statistic> split(Statistic statistics) {
  SmallVector<Statistic> members;
  for (uint32_t bits = static_cast<uint32_t>(statistics); bits;
       bits &= bits - 1)
    members.push_back(static_cast<Statistic>(bits & -bits));
  return members;
}

SmallVector<Statistic> StatisticsOp::getMembers() {
  return split(getStatistics());
}

static Type getResultType(Statistic member, MLIRContext *context) {
  Type real = Float32Type::get(context), count = IntegerType::get(context, 64);
  switch (member) {
  case Statistic::Amax:
  case Statistic::Smallest:
    return RankedTensorType::get({}, real);
  case Statistic::Zeros:
  case Statistic::NonFinite:
    return RankedTensorType::get({}, count);
  case Statistic::Exponents:
    return RankedTensorType::get({StatisticsOp::kExponents}, count);
  }
  llvm_unreachable("all statistics are listed");
}

LogicalResult StatisticsOp::inferReturnTypes(MLIRContext *context,
                                             std::optional<Location>,
                                             Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  for (Statistic member : split(adaptor.getStatistics()))
    types.push_back(getResultType(member, context));
  return success();
}

LogicalResult StatisticsOp::verify() {
  Type element = getElementTypeOrSelf(getX().getType());
  if (element.getIntOrFloatBitWidth() > 32)
    return emitOpError("computes in f32, which cannot represent ") << element;
  return success();
}

Schedule StatisticsOp::getSchedule() { return Schedule::Statistics; }

/// The statistics do not depend on the order of the elements.
Layouts StatisticsOp::chooseLayouts(const Layouts &known) {
  Layouts chosen(*this);
  chosen.operands = known.operands;
  return chosen;
}

/// Returns zeros, and infinity for the smallest magnitude.
FailureOr<SmallVector<Value>>
StatisticsOp::buildWithoutElements(ImplicitLocOpBuilder &b) {
  SmallVector<Value> values = buildZeros(b, getResultTypes());
  for (auto [member, value] : llvm::zip(getMembers(), values))
    if (member == Statistic::Smallest)
      value = buildSplat(b, value.getType(), INFINITY);
  return values;
}
