//===- Attention.cpp - Scaled dot-product attention -----------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/CpuTarget.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/QuantizedOperands.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Attention.cpp.inc"

/// Returns the multiply-adds of one contraction of query and key.
static int64_t countScoreMacs(Value query, Value key) {
  auto keys = cast<RankedTensorType>(key.getType());
  return cast<RankedTensorType>(query.getType()).getNumElements() *
         keys.getDimSize(keys.getRank() - 2);
}

/// The scores, and the values weighted by them.
std::optional<int64_t> AttentionOp::countMacs() {
  return countScoreMacs(getQuery(), getKey()) +
         countScoreMacs(getY(), getKey());
}

/// The scores recomputed, the gradients of scores and values, and the gradients
/// of query and key.
std::optional<int64_t> AttentionGradOp::countMacs() {
  return 3 * countScoreMacs(getQuery(), getKey()) +
         2 * countScoreMacs(getGradient(), getKey());
}

Schedule AttentionOp::getSchedule() { return Schedule::Library; }
Schedule AttentionGradOp::getSchedule() { return Schedule::Library; }

/// Returns the format of an operand after query, key and value, and after y and
/// lse: biases are read in f32, masks and the generator's state as they are.
static FormatRole getExtraFormat(Value x) {
  FormatRole role = getDefaultFormatRole(x.getType());
  return role == FormatRole::Chosen ? FormatRole::Wide : role;
}

FormatRole AttentionOp::getOperandFormat(unsigned index) {
  return index < 3 ? FormatRole::Chosen : getExtraFormat(getOperand(index));
}

FormatRole AttentionOp::getResultFormat(unsigned index) {
  return index == 0 ? FormatRole::Chosen : FormatRole::Wide;
}

FormatRole AttentionGradOp::getOperandFormat(unsigned index) {
  return index < 5 ? FormatRole::Chosen : getExtraFormat(getOperand(index));
}

FormatRole AttentionGradOp::getResultFormat(unsigned index) {
  return index < 3 ? FormatRole::Chosen : getExtraFormat(getResult(index));
}

/// Checks the constraints on the three operands of attention.
template <typename Adaptor>
static LogicalResult verifyInputs(std::optional<Location> location,
                                  Adaptor adaptor) {
  RankedTensorType query = getTensor(adaptor.getQuery()),
                   key = getTensor(adaptor.getKey()),
                   value = getTensor(adaptor.getValue());
  int64_t rank = query.getRank();
  auto getLeading = [](RankedTensorType type) {
    return type.getShape().drop_back(2);
  };
  auto isShared = [&] {
    SmallVector<int64_t> shared(getLeading(query));
    if (shared.empty() || shared.back() == 0)
      return false;
    shared.back() = 1;
    return getLeading(key) == ArrayRef(shared);
  };
  if (rank < 2 || key.getRank() != rank || value.getRank() != rank ||
      getLeading(value) != getLeading(key) ||
      (getLeading(key) != getLeading(query) && !isShared()) ||
      key.getDimSize(rank - 1) != query.getDimSize(rank - 1) ||
      value.getDimSize(rank - 2) != key.getDimSize(rank - 2)) // C1
    return emitOptionalError(location,
                             "expected query [..., N, D], key [..., K, D] and "
                             "value [..., K, E], got ",
                             query, ", ", key, " and ", value);
  if (adaptor.getCausal() &&
      query.getDimSize(rank - 2) != key.getDimSize(rank - 2)) // C2
    return emitOptionalError(location,
                             "causal attention needs as many queries "
                             "as keys, got ",
                             query.getDimSize(rank - 2), " and ",
                             key.getDimSize(rank - 2));
  SmallVector<int64_t> scores(query.getShape());
  scores.back() = key.getDimSize(rank - 2);
  auto isBroadcast = [&](Value x) {
    ArrayRef<int64_t> shape = getTensor(x).getShape();
    return shape.size() == scores.size() &&
           llvm::all_of(llvm::zip(shape, scores), [](auto sizes) {
             auto [own, whole] = sizes;
             return own == whole || own == 1;
           });
  };
  SmallVector<Value> added(adaptor.getBiases());
  if (Value mask = adaptor.getMask())
    added.push_back(mask);
  for (Value x : added)
    if (!isBroadcast(x)) // C3
      return emitOptionalError(
          location, "expected biases and a mask that can be broadcast to [",
          ArrayRef(scores), "], got ", x.getType());
  return success();
}

/// Checks the constraints on the attributes of attention.
template <typename Op> static LogicalResult verifyExtras(Op op) {
  double softcap = op.getSoftcap().convertToDouble();
  if (!std::isfinite(softcap) || softcap < 0.0) // C4
    return op.emitOpError("expects a finite softcap of at least 0, got ")
           << formatNumber(softcap);
  if (op.getRng())
    return verifyDropout(op, op.getRatio(), op.getStream());
  if (!op.getRatio().isZero() || op.getStream() != 0)
    return op.emitOpError("expects no ratio or stream without rng");
  return success();
}

LogicalResult AttentionOp::verify() { return verifyExtras(*this); }
LogicalResult AttentionGradOp::verify() { return verifyExtras(*this); }

void AttentionOp::build(OpBuilder &b, OperationState &state, Value query,
                        Value key, Value value, const APFloat &scale,
                        bool causal) {
  build(b, state, query, key, value, ValueRange(), Value(), Value(), scale,
        causal, APFloat(0.0), APFloat(double(-INFINITY)), false, false,
        APFloat(0.0), 0, PrecisionAttr());
}

void AttentionOp::copyExtras(AttentionOp other) {
  getBiasesMutable().assign(other.getBiases());
  if (Value mask = other.getMask())
    getMaskMutable().assign(mask);
  if (Value rng = other.getRng())
    getRngMutable().assign(rng);
  setScale(other.getScale());
  setCausal(other.getCausal());
  setSoftcap(other.getSoftcap());
  setFill(other.getFill());
  setZeroHidden(other.getZeroHidden());
  setZeroNan(other.getZeroNan());
  setRatio(other.getRatio());
  setStream(other.getStream());
  setPrecisionAttr(other.getPrecisionAttr());
}

SmallVector<Value> AttentionOp::buildEvaluation(ImplicitLocOpBuilder &b,
                                                function_ref<Value(Value)>) {
  if (!getRng())
    return llvm::to_vector_of<Value>(getResults());
  auto evaluation = cast<AttentionOp>(b.clone(*getOperation()));
  evaluation.getRngMutable().clear();
  evaluation.setRatio(APFloat(0.0));
  evaluation.setStream(0);
  return llvm::to_vector_of<Value>(evaluation.getResults());
}

/// Returns the shape of the result, [..., N, E].
template <typename Adaptor>
static SmallVector<int64_t> getResultShape(Adaptor adaptor) {
  SmallVector<int64_t> shape(getTensor(adaptor.getQuery()).getShape());
  shape.back() = getTensor(adaptor.getValue()).getShape().back();
  return shape;
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *context,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  if (failed(verifyInputs(location, adaptor)))
    return failure();
  RankedTensorType query = getTensor(adaptor.getQuery());
  types.push_back(query.clone(getResultShape(adaptor)));
  types.push_back(RankedTensorType::get(query.getShape().drop_back(),
                                        Float32Type::get(context)));
  return success();
}

bool AttentionOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return haveSameShapes(l, r);
}

SmallVector<Value> AttentionOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                             ArrayRef<Value> cotangents) {
  auto gradients = AttentionGradOp::create(
      b, cotangents.front(), getQuery(), getKey(), getValue(), getY(), getLse(),
      getBiases(), getMask(), getRng(), getScale(), getCausal(), getSoftcap(),
      getFill(), getZeroHidden(), getZeroNan(), getRatio(), getStream(),
      PrecisionAttr());
  auto results = llvm::to_vector_of<Value>(gradients.getResults());
  results.resize(getNumOperands());
  return results;
}

LogicalResult AttentionGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  if (failed(verifyInputs(location, adaptor)))
    return failure();
  SmallVector<int64_t> shape = getResultShape(adaptor);
  ArrayRef<int64_t> rows = ArrayRef(shape).drop_back();
  if (failed(expectShape(location, "gradient", adaptor.getGradient().getType(),
                         shape)) ||
      failed(expectShape(location, "y", adaptor.getY().getType(), shape)) ||
      failed(expectShape(location, "lse", adaptor.getLse().getType(), rows)))
    return failure();
  for (Value x : {adaptor.getQuery(), adaptor.getKey(), adaptor.getValue()})
    types.push_back(x.getType());
  llvm::append_range(types, adaptor.getBiases().getTypes());
  return success();
}

bool AttentionGradOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return haveSameShapes(l, r);
}

//===----------------------------------------------------------------------===//
// Attention that is not decomposed
//===----------------------------------------------------------------------===//

static int64_t getHeadSize(Value x) { return getTensor(x).getShape().back(); }

static bool isCpu(TargetAttr target) {
  return target.getName() == kCpuTargetName;
}

/// Returns of what the size of a head must be a multiple for the kernels of
/// `target`.
static int64_t getHeadMultiple(TargetAttr target) {
  return isCpu(target) ? 1 : 16;
}

static bool hasKernelOf(TargetAttr target, FloatType compute) {
  return target && llvm::is_contained(target.getAttention(), compute);
}

/// Returns why the kernels do not compute the mask of `op`; empty if they do.
template <typename Op> static std::string findUnsupportedMask(Op op) {
  // A plan has finite fills and minus infinity.
  double fill = op.getFill().convertToDouble();
  if (op.getMask() && !(static_cast<float>(fill) < INFINITY))
    return llvm::formatv("the attention kernels fill masked scores with a "
                         "finite f32 or -infinity, not with {0}",
                         formatNumber(fill));
  return "";
}

/// Whether the target of `op` has a kernel for the whole op. `multiplied` are
/// the operands of its contractions, `compute` is the format they must have.
template <typename Op>
static bool hasKernel(Op op, ValueRange multiplied, FloatType compute) {
  TargetAttr target = getAnyTarget(op);
  if (!hasKernelOf(target, compute) || !findUnsupportedMask(op).empty())
    return false;
  auto isMultiplied = [&](Value x) {
    int64_t columns = getHeadSize(x);
    return getElementTypeOrSelf(x.getType()) == compute &&
           columns % getHeadMultiple(target) == 0 &&
           columns <= target.getMost();
  };
  auto isNumber = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isF32() || element.isF16() || element.isBF16();
  };
  // A mask is boolean, and the state of the generator has two integers.
  auto isSupported = [&](Type type) {
    return isNumber(type) || getElementTypeOrSelf(type).isInteger();
  };
  return llvm::all_of(multiplied, isMultiplied) &&
         llvm::none_of(op->getOperandTypes(), hasNoElements) &&
         llvm::all_of(op->getOperandTypes(), isSupported) &&
         llvm::all_of(op->getResultTypes(), isNumber);
}

/// Returns the fallback of an attention that `hasKernel` rejects although the
/// target has kernels for its compute format.
template <typename Op>
static std::optional<Fallback> findPieces(Op op, ValueRange multiplied,
                                          FloatType compute) {
  if (std::optional<Fallback> dequantized =
          findDequantized(op, op.getPrecisionAttr()))
    return dequantized;
  TargetAttr target = getAnyTarget(op);
  if (!hasKernelOf(target, compute) || hasKernel(op, multiplied, compute))
    return std::nullopt;
  std::string format = llvm::to_string(compute);
  if (std::string mask = findUnsupportedMask(op); !mask.empty())
    return Fallback{format, format, mask, ""};
  std::string reason = "operands have different formats", nearest;
  int64_t multiple = getHeadMultiple(target);
  for (Value x : multiplied) {
    int64_t columns = getHeadSize(x), next = llvm::alignTo(columns, multiple);
    if (columns > target.getMost())
      reason = llvm::formatv("a head size of {0} is more than {1}", columns,
                             target.getMost());
    else if (columns != next)
      std::tie(reason, nearest) =
          std::pair(llvm::formatv("a head size of {0} is not a multiple of {1}",
                                  columns, multiple)
                        .str(),
                    llvm::formatv("head size = {0}", next).str());
  }
  return Fallback{format, format, reason, nearest};
}

std::optional<Fallback> AttentionOp::findFallback() {
  return findPieces(*this, {getQuery(), getKey(), getValue()},
                    getComputeFormat(*this, getValue().getType()));
}

std::optional<Fallback> AttentionGradOp::findFallback() {
  return findPieces(*this, {getGradient(), getQuery(), getKey(), getValue()},
                    getComputeFormat(*this, getQuery().getType()));
}

bool AttentionOp::ignoresMasked() { return true; }

bool AttentionOp::hasWholeKernel() {
  return hasKernel(*this, {getQuery(), getKey(), getValue()},
                   getComputeFormat(*this, getValue().getType()));
}

bool AttentionGradOp::hasWholeKernel() {
  return hasKernel(*this, {getGradient(), getQuery(), getKey(), getValue()},
                   getComputeFormat(*this, getQuery().getType()));
}
