//===- BinadeAttrs.cpp - Attributes and their verifiers -------------------===//

#include "binade/Container/Numbers.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/HadamardOp.h"
#include "binade/IR/ScaledOperand.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

#include "binade/IR/BinadeEnums.cpp.inc"

/// Parses what follows the size of a piece: `codes`, `multiple`, `block`,
/// `attention` and `most`, each optional and after a comma. The declarative
/// format does not support such a list, because it distinguishes optional
/// groups by their first token, which is a comma for all of them here.
static ParseResult parseTargetProducts(AsmParser &parser,
                                       SmallVectorImpl<FloatType> &codes,
                                       int64_t &multiple, int64_t &block,
                                       SmallVectorImpl<FloatType> &attention,
                                       int64_t &most) {
  auto parseFormats = [&](SmallVectorImpl<FloatType> &formats) {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
      return parser.parseType(formats.emplace_back());
    });
  };
  multiple = 1;
  block = most = 0;
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef keyword;
    if (failed(parser.parseOptionalKeyword(
            &keyword, {"codes", "multiple", "block", "attention", "most"})))
      return parser.emitError(loc, "expected 'codes', 'multiple', 'block', "
                                   "'attention' or 'most'");
    if (parser.parseEqual())
      return failure();
    int64_t *number = llvm::StringSwitch<int64_t *>(keyword)
                          .Case("multiple", &multiple)
                          .Case("block", &block)
                          .Case("most", &most)
                          .Default(nullptr);
    if (number ? parser.parseInteger(*number)
               : parseFormats(keyword == "codes" ? codes : attention))
      return failure();
  }
  return success();
}

static void printTargetProducts(AsmPrinter &printer, ArrayRef<FloatType> codes,
                                int64_t multiple, int64_t block,
                                ArrayRef<FloatType> attention, int64_t most) {
  auto printFormats = [&](StringRef name, ArrayRef<FloatType> formats) {
    printer << ", " << name << " = [";
    llvm::interleaveComma(formats, printer,
                          [&](Type type) { printer << type; });
    printer << "]";
  };
  if (!codes.empty()) {
    printFormats("codes", codes);
    printer << ", multiple = " << multiple;
    if (block)
      printer << ", block = " << block;
  }
  if (!attention.empty()) {
    printFormats("attention", attention);
    printer << ", most = " << most;
  }
}

#define GET_ATTRDEF_CLASSES
#include "binade/IR/BinadeAttrs.cpp.inc"

void BinadeDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "binade/IR/BinadeAttrs.cpp.inc"
      >();
}

LogicalResult
TransformAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t hadamard, HadamardSigns) {
  if (llvm::is_contained(kHadamardSizes, hadamard))
    return success();
  return emitError()
         << "expected groups of 4, 8, 16, 32, 64 or 128 elements, got "
         << hadamard;
}

std::string AccumulationAttr::explainViolation(int64_t bits, int64_t step,
                                               int64_t promote) {
  auto in = [](int64_t x, int64_t least, int64_t most) {
    return x >= least && x <= most;
  };
  if (!in(bits, kMinBits, kMaxBits))
    return llvm::formatv("'bits' of an accumulator is from {0} to {1}, got {2}",
                         kMinBits, kMaxBits, bits);
  if (!in(step, 1, kMaxStep))
    return llvm::formatv("'step' of an accumulator is from 1 to {0}, got {1}",
                         kMaxStep, step);
  if (promote < 0 || promote % step != 0)
    return llvm::formatv("'promote' is 0, for never, or a multiple of 'step' = "
                         "{0}, got {1}",
                         step, promote);
  return {};
}

LogicalResult
AccumulationAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         int64_t bits, int64_t step, int64_t promote) {
  std::string wrong = explainViolation(bits, step, promote);
  return wrong.empty() ? success() : emitError() << wrong;
}

LogicalResult
PrecisionAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      FloatType compute, FloatType accumulate, FloatType result,
                      ArrayAttr operands, TransformAttr transform,
                      AccumulationAttr accumulation, ClampAttr, StringAttr) {
  constexpr int64_t kFactors = 2;
  if (transform &&
      (!operands ||
       llvm::count_if(operands, llvm::IsaPred<QuantizedAttr>) != kFactors))
    return emitError() << "'transform' needs two quantized operands, got "
                       << transform << " and operands = "
                       << (operands
                               ? operands
                               : ArrayAttr::get(transform.getContext(), {}));
  if (operands)
    for (Attribute format : operands) {
      auto quantized = dyn_cast<QuantizedAttr>(format);
      if (quantized && quantized.correctsScales() &&
          (!transform ||
           transform.getHadamard() != quantized.getCorrectedSize()))
        return emitError() << "an operand with rule 'rounded_eden' needs a "
                              "transform of groups of "
                           << quantized.getCorrectedSize() << " elements";
      auto bias = dyn_cast<TypeAttr>(format);
      bool isStored =
          bias && isa<Float32Type, BFloat16Type, Float16Type>(bias.getValue());
      if (auto scaled = dyn_cast<DictionaryAttr>(format)) {
        if (std::string wrong = explainInvalidScale(scaled); !wrong.empty())
          return emitError() << wrong;
        if (result.isF16())
          return emitError() << "scaled operands ('unit_scale') need a result "
                                "in f32 or bf16, got "
                             << result
                             << "; f16 could not represent the product "
                                "without its scale";
        continue;
      }
      if (!isStored && !isa<QuantizedAttr, UnitAttr>(format))
        return emitError() << "an operand is quantized, unit, or a bias in "
                              "f32, bf16 or f16, not "
                           << format;
    }
  if (!isOneOf(compute, kOperandFloats) && !compute.isF64())
    return emitError() << "compute format " << compute << " is not "
                       << joinNames(kOperandFloats);
  for (auto [what, format] :
       {std::pair("accumulation", accumulate), std::pair("result", result)})
    if (format && getStorageFormat(format) != format)
      return emitError()
             << what << " format " << format
             << " is not a storage format; only operands are rounded to it";
  if (accumulate && !isOneOf(accumulate, kSumFloats))
    return emitError() << "accumulation format " << accumulate << " is not "
                       << joinNames(kSumFloats);
  if (accumulation && !(accumulate && accumulate.isF32()))
    return emitError() << "'accumulation' adds to sums in f32, for which "
                          "'accumulate' is f32";
  if (accumulate &&
      accumulate.getFPMantissaWidth() < compute.getFPMantissaWidth())
    return emitError() << "accumulation format " << accumulate
                       << " is narrower than compute format " << compute;
  if (!isOneOf(result, kComputedFloats) && !isOneOf(result, kByteFloats) &&
      !result.isF64())
    return emitError() << "result format " << result << " is not "
                       << joinNames(kComputedFloats)
                       << ", nor one of 8 bits for a saved value";
  return success();
}

QuantizedAttr PrecisionAttr::getOperand(unsigned index) const {
  ArrayAttr operands = getOperands();
  return operands && index < operands.size()
             ? dyn_cast<QuantizedAttr>(operands[index])
             : QuantizedAttr();
}

/// Returns what is wrong with `format` of one state, or an empty string.
static std::string explainState(Attribute format) {
  if (auto random = dyn_cast<StochasticAttr>(format))
    return random.getFormat().isBF16() || random.getFormat().isF16()
               ? ""
               : "states are rounded stochastically to bf16, f16 or a "
                 "quantized "
                 "format, not to " +
                     llvm::to_string(random.getFormat());
  auto type = dyn_cast<TypeAttr>(format);
  Type number = type ? type.getValue() : Type();
  if (isa<QuantizedAttr>(format) ||
      (number && (number.isF32() || number.isBF16() || number.isF16())))
    return "";
  return "states are kept in f32, bf16, f16 or a quantized format, not in " +
         llvm::to_string(format);
}

std::string StorageAttr::explainViolation(FloatType parameter, Master master,
                                          Attribute states,
                                          FloatType accumulator) {
  auto print = [](FloatType format) { return llvm::to_string(format); };
  for (auto [what, format] : {std::pair("parameters", parameter),
                              std::pair("accumulated gradients", accumulator)})
    if (format && !format.isF32() && !format.isBF16() && !format.isF16())
      return std::string(what) + " are kept in f32, bf16 or f16, not in " +
             print(format);
  SmallVector<Attribute> formats;
  if (auto list = dyn_cast_if_present<ArrayAttr>(states))
    llvm::append_range(formats, list);
  else if (states)
    formats.push_back(states);
  for (Attribute format : formats)
    if (std::string wrong = explainState(format); !wrong.empty())
      return wrong;
  if (master == Master::None)
    return "";
  std::string name = "'" + stringifyMaster(master).str() + "'";
  if (!parameter || parameter.isF32())
    return name +
           " preserves what a 16-bit parameter loses; the parameter is f32";
  bool isCode = master == Master::Split8Bit;
  bool splits =
      isCode || master == Master::SplitRound || master == Master::SplitTrunc;
  if (splits && !parameter.isBF16())
    return name + " splits an f32 into a bf16 and " + (isCode ? "8" : "16") +
           " more bits; the parameter is " + print(parameter);
  return "";
}

Attribute StorageAttr::getState(unsigned index) const {
  auto list = dyn_cast_if_present<ArrayAttr>(getStates());
  if (!list)
    return getStates();
  return index < list.size() ? list[index] : Attribute();
}

FloatType StorageAttr::getStateFormat(unsigned index) const {
  Attribute state = getState(index);
  if (auto random = dyn_cast_if_present<StochasticAttr>(state))
    return random.getFormat();
  auto type = dyn_cast_if_present<TypeAttr>(state);
  return type ? cast<FloatType>(type.getValue()) : FloatType();
}

QuantizedAttr StorageAttr::getQuantized(unsigned index) const {
  return dyn_cast_if_present<QuantizedAttr>(getState(index));
}

LogicalResult StorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  FloatType parameter, Master master,
                                  Attribute states, FloatType accumulator,
                                  StringAttr) {
  if (std::string wrong =
          explainViolation(parameter, master, states, accumulator);
      !wrong.empty())
    return emitError() << wrong;
  return success();
}

LogicalResult ExternalAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   Type type, StringAttr file, uint64_t offset,
                                   uint64_t bytes, StringAttr sha256) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return emitError() << "external data need a tensor type of static shape, "
                          "got "
                       << type;
  uint64_t width = tensor.getElementTypeBitWidth();
  uint64_t needed = tensor.getNumElements() * llvm::divideCeil(width, 8);
  if (bytes != needed)
    return emitError() << "external data have " << bytes << " bytes, " << tensor
                       << " needs " << needed;
  if (sha256 && (sha256.size() != 64 ||
                 !llvm::all_of(sha256.getValue(),
                               [](char c) { return llvm::isHexDigit(c); })))
    return emitError() << "expected a SHA-256 of 64 hexadecimal digits, got "
                       << sha256;
  return success();
}

LogicalResult RandomAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr distribution, FloatAttr origin,
                                 FloatAttr scale) {
  if (distribution.getValue() != "normal" &&
      distribution.getValue() != "uniform")
    return emitError()
           << "expected distribution \"normal\" or \"uniform\", got "
           << distribution;
  if (!std::isfinite(origin.getValueAsDouble()))
    return emitError() << "expected a finite origin, got "
                       << formatNumber(origin.getValueAsDouble());
  double number = scale.getValueAsDouble();
  if (!(number >= 0.0 && number < INFINITY))
    return emitError() << "expected a finite, non-negative scale, got "
                       << formatNumber(number);
  return success();
}

::binade::NumberRange SettingAttr::getRange() const {
  auto get = [](FloatAttr bound) {
    return bound ? std::optional(bound.getValueAsDouble()) : std::nullopt;
  };
  return {get(getMin()), get(getMax()), get(getBelow())};
}

std::string SettingAttr::explainViolation(double value) const {
  return getRange().explainViolation(getName().strref(), value);
}

//===----------------------------------------------------------------------===//
// Formats and shapes of types
//===----------------------------------------------------------------------===//

FloatType mlir::binade::getStorageFormat(FloatType format) {
  return isa<FloatTF32Type>(format) ? Float32Type::get(format.getContext())
                                    : format;
}

FloatType mlir::binade::getComputeFormat(PrecisionOpInterface op,
                                         Type operand) {
  auto stored = cast<FloatType>(getElementTypeOrSelf(operand));
  PrecisionAttr decision = op.getPrecisionAttr();
  return decision && getStorageFormat(decision.getCompute()) == stored
             ? decision.getCompute()
             : stored;
}

FormatRole mlir::binade::getDefaultFormatRole(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<FloatType>(element) && !element.isF64() ? FormatRole::Chosen
                                                     : FormatRole::Fixed;
}

LogicalResult mlir::binade::verifyResultTypes(Operation *op, TypeRange inferred,
                                              bool areCompatible) {
  if (areCompatible)
    return success();
  return op->emitOpError("inferred type(s) ")
         << inferred << " are incompatible with return type(s) of operation "
         << op->getResultTypes();
}

LogicalResult mlir::binade::verifyAttributeNames(Operation *op) {
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    StringRef name = attribute.getName();
    if (name.contains('.'))
      continue;
    std::vector<std::string> declared;
    for (StringAttr known : op->getName().getAttributeNames())
      declared.push_back(known.str());
    return op->emitOpError("has no attribute called ")
           << ::binade::quote(name) << ::binade::suggest(name, declared);
  }
  return success();
}

LogicalResult mlir::binade::verifyOneKindOfElements(Operation *op, Type lhs,
                                                    Type rhs) {
  Type l = getElementTypeOrSelf(lhs), r = getElementTypeOrSelf(rhs);
  if (l == r || (isa<FloatType>(l) && isa<FloatType>(r)))
    return success();
  return op->emitOpError("expects two float types, or equal element types, "
                         "got ")
         << lhs << " and " << rhs;
}

std::optional<Rows> mlir::binade::getRowsOfElements(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  bool isView = kernelOp && kernelOp.getSchedule() == Schedule::View &&
                op->getNumOperands() == 1;
  if (!isView && !isa<ElementwiseOpInterface>(op))
    return std::nullopt;
  return Rows{SmallVector<bool>(op->getNumOperands(), true)};
}

bool mlir::binade::haveSameShapes(TypeRange lhs, TypeRange rhs) {
  return lhs.size() == rhs.size() &&
         llvm::all_of(llvm::zip(lhs, rhs), [](auto pair) {
           auto l = dyn_cast<RankedTensorType>(std::get<0>(pair));
           auto r = dyn_cast<RankedTensorType>(std::get<1>(pair));
           return l && r && l.getShape() == r.getShape() &&
                  (l.getElementType() == r.getElementType() ||
                   (isa<FloatType>(l.getElementType()) &&
                    isa<FloatType>(r.getElementType())));
         });
}

LogicalResult mlir::binade::expectShape(std::optional<Location> location,
                                        StringRef what, Type type,
                                        ArrayRef<int64_t> shape) {
  if (cast<RankedTensorType>(type).getShape() == shape)
    return success();
  return emitOptionalError(location, "expected ", what, " of shape [", shape,
                           "], got ", type);
}
