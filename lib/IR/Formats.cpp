//===- Formats.cpp - Number formats and where they are allowed ------------===//

#include "binade/IR/Formats.h"
#include "binade/IR/Accumulation.h"
#include "binade/IR/Binade.h"
#include "binade/IR/QuantizedOperands.h"
#include "binade/IR/ScaledOperand.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

bool mlir::binade::isOneOf(FloatType format, ArrayRef<StringLiteral> names) {
  return llvm::is_contained(names, llvm::to_string(format));
}

using FindFormat = FloatType (*)(MLIRContext *);

template <typename Format> static FloatType get(MLIRContext *context) {
  return Format::get(context);
}

static constexpr StringLiteral kNames[] = {
    "f64",       "f32",        "tf32",       "bf16",
    "f16",       "f8E4M3FN",   "f8E5M2",     "f8E4M3",
    "f8E3M4",    "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ",
    "f8E8M0FNU", "f6E3M2FN",   "f6E2M3FN",   "f4E2M1FN"};
static constexpr FindFormat kFormats[] = {
    get<Float64Type>,        get<Float32Type>,
    get<FloatTF32Type>,      get<BFloat16Type>,
    get<Float16Type>,        get<Float8E4M3FNType>,
    get<Float8E5M2Type>,     get<Float8E4M3Type>,
    get<Float8E3M4Type>,     get<Float8E4M3FNUZType>,
    get<Float8E5M2FNUZType>, get<Float8E4M3B11FNUZType>,
    get<Float8E8M0FNUType>,  get<Float6E3M2FNType>,
    get<Float6E2M3FNType>,   get<Float4E2M1FNType>};
static_assert(std::size(kNames) == std::size(kFormats));

FloatType mlir::binade::findFormat(StringRef name, MLIRContext *context) {
  const StringLiteral *found = llvm::find(kNames, name);
  return found == std::end(kNames) ? FloatType()
                                   : kFormats[found - kNames](context);
}

ArrayRef<StringLiteral> mlir::binade::getFormatNames() { return kNames; }

std::string mlir::binade::joinNames(ArrayRef<StringLiteral> names) {
  if (names.size() == 1)
    return names.front().str();
  return llvm::join(names.drop_back(), ", ") + " or " + names.back().str();
}

bool mlir::binade::hasOneFormat(Operation *op) {
  return isa<BroadcastOp, ConcatOp, GatherOp, PadOp, ReshapeOp, SliceOp,
             TransposeOp>(op);
}

/// Whether operand `index` is the bias of a contraction, after its factors.
static bool isBias(PrecisionOpInterface op, size_t index) {
  constexpr size_t kFactors = 2;
  return op.accumulates() && index == kFactors &&
         op->getNumOperands() == kFactors + 1 &&
         op.getOperandFormat(index) == FormatRole::Wide;
}

/// Checks which parts of a decision `op` can have.
static LogicalResult verifyDecision(PrecisionOpInterface op,
                                    PrecisionAttr decision) {
  bool isSaved = isa<SaveOp>(op), sums = op.accumulates();
  if (decision.getAccumulate() && !sums)
    return op->emitOpError(
               "has no accumulation format: only matmuls, convolutions and "
               "attention have an accumulation format, got "
               "accumulate = ")
           << decision.getAccumulate();
  // Ops on f64 stay in f64.
  bool isDouble = llvm::all_of(op->getOperandTypes(), [](Type type) {
    return getElementTypeOrSelf(type).isF64();
  });
  for (FloatType format : {decision.getCompute(), decision.getResult()})
    if (format.isF64() && !isDouble)
      return op->emitOpError("has operands that are not f64, for which a "
                             "decision has f32 or a narrower format, got f64");
  if (!isSaved && !isDouble && !isOneOf(decision.getResult(), kComputedFloats))
    return op->emitOpError("expects a result in ")
           << joinNames(kComputedFloats) << ", got " << decision.getResult()
           << "; 'quantize' computes values of 8 bits, with scales";
  FloatType stored = getStorageFormat(decision.getCompute());
  if (hasOneFormat(op) && stored != decision.getResult())
    return op->emitOpError("copies elements, in one format, got compute = ")
           << decision.getCompute() << " and result = " << decision.getResult();
  if (isa<JoinHalvesOp>(op) &&
      !(stored.isBF16() && decision.getResult().isF32()))
    return op->emitOpError("joins halves of an f32, so that a decision has "
                           "compute = bf16 and result = f32");
  ArrayAttr operands = decision.getOperands();
  if (decision.getAccumulation())
    if (std::string wrong = explainUnaccumulated(op, operands); !wrong.empty())
      return op->emitOpError(wrong) << ", so that a decision has no "
                                       "'accumulation'";
  if (!operands)
    return success();
  if (!sums && !isSaved)
    return op->emitOpError("quantizes no operands: only matmuls, convolutions, "
                           "attention and save do, got operands = ")
           << operands;
  if (operands.size() != op->getNumOperands())
    return op->emitOpError("has ")
           << op->getNumOperands() << " operands, and a decision about "
           << operands.size();
  for (auto [index, format] : llvm::enumerate(operands))
    if (isa<TypeAttr>(format) && !isBias(op, index))
      return op->emitOpError("rounds operand ")
             << index << " to 'compute'; only a bias has a format of its own, "
             << "got " << format;
  if (scalesOperands(decision) && !hasScalableOperands(op))
    return op->emitOpError("scales no operands: only matmuls and convolutions "
                           "do, got operands = ")
           << operands;
  if (TransformAttr transform = decision.getTransform())
    if (std::string wrong = explainUntransformable(op, transform.getHadamard());
        !wrong.empty())
      return op->emitOpError(wrong);
  return success();
}

LogicalResult mlir::binade::verifyFormats(Operation *op) {
  auto precision = cast<PrecisionOpInterface>(op);
  if (PrecisionAttr decision = precision.getPrecisionAttr();
      decision && failed(verifyDecision(precision, decision)))
    return failure();
  FloatType narrow, wide;
  auto check = [&](StringRef what, TypeRange types,
                   function_ref<FormatRole(unsigned)> getRole) {
    for (auto [index, type] : llvm::enumerate(types)) {
      auto format = dyn_cast<FloatType>(getElementTypeOrSelf(type));
      if (!format)
        continue;
      // Statistics and biases are f32 next to any other format.
      if (getRole(index) != FormatRole::Wide)
        (format.isF64() ? wide : narrow) = format;
      if (precision.accumulates() && !format.isF64() &&
          !isOneOf(format, kComputedFloats))
        return LogicalResult(
            op->emitOpError("expects ")
            << what << " " << index << " in " << joinNames(kComputedFloats)
            << ", got " << type
            << "; 'scaled_matmul' multiplies values of 8 bits");
    }
    return success();
  };
  auto ofOperand = [&](unsigned i) { return precision.getOperandFormat(i); };
  auto ofResult = [&](unsigned i) { return precision.getResultFormat(i); };
  if (failed(check("operand", op->getOperandTypes(), ofOperand)) ||
      failed(check("result", op->getResultTypes(), ofResult)))
    return failure();
  // A save may store f64 values in another format, and the other way round.
  if (wide && narrow && !isa<SaveOp>(op))
    return op->emitOpError("mixes f64 with ")
           << narrow << "; convert by 'binade.cast'";
  return success();
}
