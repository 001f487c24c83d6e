//===- Quantized.cpp - Quantized formats ----------------------------------===//

#include "ParseFormat.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Formats.h"
#include "binade/IR/Movement.h"
#include "mlir/IR/DialectImplementation.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// QuantizedAttr
//===----------------------------------------------------------------------===//

FloatType QuantizedAttr::getFormat() const {
  auto type = dyn_cast<TypeAttr>(getElement());
  return type ? dyn_cast<FloatType>(type.getValue()) : FloatType();
}

CodeBookAttr QuantizedAttr::getBook() const {
  return dyn_cast<CodeBookAttr>(getElement());
}

CompandedAttr QuantizedAttr::getCompanded() const {
  return dyn_cast<CompandedAttr>(getElement());
}

bool QuantizedAttr::isPacked() const {
  constexpr size_t kPackedValues = 16;
  return getBook() && getBook().getValues().size() == kPackedValues;
}

Type QuantizedAttr::getCodeType() const {
  FloatType format = getFormat();
  if (format && format.getWidth() >= 8)
    return format;
  return IntegerType::get(getContext(), 8);
}

double QuantizedAttr::getLargest() const {
  if (FloatType format = getFormat())
    return mlir::binade::getLargest(format);
  if (getCompanded())
    return 1.0;
  ArrayRef<float> values = getBook().getValues();
  return std::max(values.back(), -values.front());
}

bool QuantizedAttr::multiplies() const {
  return hasBlockScales() || getRule() == ScaleRule::Inverse ||
         getRule() == ScaleRule::InversePower;
}

QuantizedAttr QuantizedAttr::withRounding(bool stochastic) const {
  return get(getContext(), getElement(), getGranularity(), getExtent(),
             getScale(), getRule(), getExpand(), stochastic, getHistory(),
             getMargin(), getTensorScale());
}

QuantizedAttr QuantizedAttr::withGroups(Granularity granularity,
                                        ArrayRef<int64_t> extent) const {
  return get(getContext(), getElement(), granularity, extent, getScale(),
             getRule(), getExpand(), getStochastic(), getHistory(), getMargin(),
             getTensorScale());
}

QuantizedAttr QuantizedAttr::withoutTensorScale() const {
  // A rule that compares or corrects scales needs the scale of the tensor.
  if (comparesScales() || correctsScales())
    return withChosenScale();
  return get(getContext(), getElement(), getGranularity(), getExtent(),
             getScale(), getRule(), getExpand(), getStochastic(), getHistory(),
             getMargin(), /*tensorScale=*/FloatType());
}

QuantizedAttr QuantizedAttr::withChosenScale() const {
  return get(getContext(), getElement(), getGranularity(), getExtent(),
             getScale(), ScaleRule::RoundedInverse, getExpand(),
             getStochastic(), getHistory(), getMargin(),
             /*tensorScale=*/FloatType());
}

QuantizedAttr QuantizedAttr::getTransposed(int64_t rows) const {
  switch (getGranularity()) {
  case Granularity::PerTensor:
    return *this;
  case Granularity::PerRow:
    return withGroups(Granularity::PerBlock, {rows, 1});
  case Granularity::PerGroup:
    return withGroups(Granularity::PerBlock, {getExtent()[0], 1});
  case Granularity::PerBlock:
    return withGroups(Granularity::PerBlock, {getExtent()[1], getExtent()[0]});
  }
  llvm_unreachable("all granularities are listed");
}

/// Rounding to the three fraction bits of E4M3 reduces a scale by at most a
/// factor of 16 / 17.
static constexpr double kHeadroom = 17.0 / 16.0;

/// The factor by which Quartet II reduces the headroom if scales are corrected:
/// it found the smallest error there.
static constexpr double kEdenHeadroom = kHeadroom * 0.93;

double QuantizedAttr::getPeak() const {
  if (correctsScales())
    return getLargest() / kEdenHeadroom;
  if (getRule() == ScaleRule::RoundedHeadroom)
    return getLargest() / kHeadroom;
  return std::ldexp(getLargest(), -static_cast<int>(getMargin()));
}

/// The largest scale in E4M3 that may be multiplied by 6 / 4.
static constexpr double kMaxSharedScale = 256;
/// The largest scale before it is corrected: rounded, it is 256, so that 1.75
/// times as much does not exceed the largest value in E4M3.
static constexpr double kMaxCorrectedScale = 255.99;

double QuantizedAttr::getTensorPeak() const {
  if (comparesScales())
    return getPeak() * kMaxSharedScale;
  if (correctsScales())
    return getPeak() * kMaxCorrectedScale;
  // The scales of blocks stay below 1 if they can be arbitrarily small.
  bool isPower = isa<Float8E8M0FNUType>(getScale());
  return getPeak() * (isPower ? 1.0 : mlir::binade::getLargest(getScale()));
}

double QuantizedAttr::getLeast() const {
  if (FloatType format = getFormat())
    return APFloat::getSmallest(format.getFloatSemantics()).convertToDouble();
  if (CompandedAttr companded = getCompanded()) {
    auto last = static_cast<double>(companded.getLargestCode());
    return 1.0 / (companded.hasSoftsign() ? 2.0 * last - 1.0 : last);
  }
  double least = INFINITY;
  for (float value : getBook().getValues().asArrayRef())
    if (value != 0.0f)
      least = std::min<double>(least, std::fabs(value));
  return least;
}

static int64_t divideUp(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

SmallVector<int64_t>
QuantizedAttr::getScaleShape(ArrayRef<int64_t> shape) const {
  switch (getGranularity()) {
  case Granularity::PerTensor:
    return {};
  case Granularity::PerRow:
    return SmallVector<int64_t>(shape.empty() ? shape : shape.drop_back());
  case Granularity::PerGroup:
    return {divideUp(ShapedType::getNumElements(shape), getExtent().front())};
  case Granularity::PerBlock: {
    SmallVector<int64_t> blocks(shape);
    size_t axes = std::min<size_t>(2, shape.size());
    for (size_t i = 1; i <= axes; ++i) {
      int64_t &size = blocks[shape.size() - i];
      size = divideUp(size, getExtent()[2 - i]);
    }
    return blocks;
  }
  }
  llvm_unreachable("all granularities are listed");
}

uint64_t QuantizedAttr::getBytes(ArrayRef<int64_t> shape) const {
  uint64_t bytes = 0;
  for (RankedTensorType part : getParts(shape))
    bytes += getByteSize(part);
  return bytes;
}

float QuantizedAttr::getScaleOfZeros() const {
  CodeBookAttr book = getBook();
  bool hasZero =
      !book || llvm::is_contained(ArrayRef<float>(book.getValues()), 0.0f);
  return hasZero ? 1.0f / static_cast<float>(getLargest())
                 : std::numeric_limits<float>::min();
}

SmallVector<RankedTensorType>
QuantizedAttr::getParts(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> codes(shape);
  if (isPacked())
    codes = {divideUp(ShapedType::getNumElements(shape), 2)};
  SmallVector<int64_t> scales = getScaleShape(shape);
  SmallVector<RankedTensorType> parts = {
      RankedTensorType::get(codes, getCodeType()),
      RankedTensorType::get(scales, getScale())};
  auto wide = Float32Type::get(getContext());
  if (getExpand())
    parts.append(2, RankedTensorType::get(scales, wide));
  if (getTensorScale())
    parts.push_back(RankedTensorType::get({}, getTensorScale()));
  return parts;
}

/// Far beyond the exponent range of any element format.
static constexpr int64_t kMaxMargin = 32;

/// The most rows and columns of a block whose scale is the better of two, or is
/// corrected.
static constexpr int64_t kMaxCompared = 16;

/// Checks a format whose scales are the better of two, or corrected.
static LogicalResult verifyChosen(function_ref<InFlightDiagnostic()> emitError,
                                  Attribute element, Granularity granularity,
                                  ArrayRef<int64_t> extent, ScaleRule rule,
                                  bool stochastic, FloatType tensorScale) {
  bool corrects = rule == ScaleRule::RoundedEden;
  std::string name = ("rule '" + stringifyScaleRule(rule) + "'").str();
  auto type = dyn_cast<TypeAttr>(element);
  if (!type || !isa<Float4E2M1FNType>(type.getValue()))
    return emitError() << name << " maps the largest magnitude of a block to "
                       << (corrects ? "the largest value" : "4 or 6, values")
                       << " of f4E2M1FN, not of " << element;
  if (granularity != Granularity::PerBlock ||
      llvm::any_of(extent, [](int64_t size) { return size > kMaxCompared; }) ||
      (corrects && !llvm::is_contained(extent, 1)))
    return emitError() << name
                       << (corrects
                               ? " corrects scales of blocks of one row or "
                                 "one column of at most 16 elements"
                               : " compares errors of blocks of at most "
                                 "16 rows and 16 columns");
  if (!tensorScale)
    return emitError() << name
                       << " needs a scale of the tensor, tensor_scale = f32";
  if (stochastic)
    return emitError() << name
                       << (corrects ? " rounds scales stochastically"
                                    : " compares errors of rounding to nearest")
                       << ", and cannot be 'stochastic'; use "
                          "'rounded_headroom'";
  return success();
}

/// Checks a format with companded elements.
static LogicalResult
verifyCompanded(function_ref<InFlightDiagnostic()> emitError,
                CompandedAttr companded, FloatType scale, bool stochastic) {
  std::string name =
      ("'" + stringifyCompanding(companded.getFunction()) + "'").str();
  if (!scale.isF32() && !scale.isF16())
    return emitError() << "elements companded by " << name
                       << " have scales in f32 or f16, not " << scale;
  if (stochastic)
    return emitError() << "elements companded by " << name
                       << " are rounded to nearest, and cannot be "
                          "'stochastic': they are compressed before they are "
                          "rounded, so that the result would be biased";
  return success();
}

/// Checks scales in E4M3 and scales of tensors, which only blocks have.
static LogicalResult verifyLevels(function_ref<InFlightDiagnostic()> emitError,
                                  Granularity granularity, FloatType scale,
                                  ScaleRule rule, FloatType tensorScale) {
  bool isRounded =
      llvm::is_contained({ScaleRule::RoundedInverse, ScaleRule::RoundedHeadroom,
                          ScaleRule::RoundedFourSix, ScaleRule::RoundedEden},
                         rule);
  if (isa<Float8E4M3FNType>(scale) != isRounded)
    return emitError() << "scales in f8E4M3FN follow rule 'rounded_inverse', "
                          "'rounded_headroom', 'rounded_four_six' or "
                          "'rounded_eden', which have no other scales; found "
                       << scale << " with '" << stringifyScaleRule(rule) << "'";
  if (tensorScale && !tensorScale.isF32())
    return emitError() << "the scale of a tensor is f32, not " << tensorScale;
  if (tensorScale && !isa<Float8E4M3FNType, Float8E8M0FNUType>(scale))
    return emitError() << "a scale of the tensor needs scales of blocks in "
                          "f8E4M3FN or f8E8M0FNU, not "
                       << scale;
  bool isOfBlocks = granularity == Granularity::PerBlock ||
                    granularity == Granularity::PerRow;
  if ((isRounded || tensorScale) && !isOfBlocks)
    return emitError() << (isRounded ? "scales in f8E4M3FN are"
                                     : "a scale of the tensor is above those")
                       << " of blocks or rows, not '"
                       << stringifyGranularity(granularity) << "'";
  return success();
}

LogicalResult
QuantizedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      Attribute element, Granularity granularity,
                      ArrayRef<int64_t> extent, FloatType scale, ScaleRule rule,
                      bool expand, bool stochastic, int64_t history,
                      int64_t margin, FloatType tensorScale) {
  auto type = dyn_cast<TypeAttr>(element);
  auto format = type ? dyn_cast<FloatType>(type.getValue()) : FloatType();
  if (!isa<CodeBookAttr, CompandedAttr>(element)) {
    bool isSmall = format && format.getWidth() <= 8 &&
                   APFloat::semanticsHasSignedRepr(format.getFloatSemantics());
    if (!isSmall && !(format && format.isF16()))
      return emitError() << "quantized elements are signed floats of at most 8 "
                            "bits, f16, codes of a #binade.code_book or "
                            "#binade.companded, not "
                         << element;
  }
  size_t numbers = granularity == Granularity::PerGroup   ? 1
                   : granularity == Granularity::PerBlock ? 2
                                                          : 0;
  if (extent.size() != numbers ||
      llvm::any_of(extent, [](int64_t size) { return size < 1; }))
    return emitError() << "'" << stringifyGranularity(granularity)
                       << "' expects " << numbers
                       << " positive numbers of elements";
  bool isPower = rule == ScaleRule::Floor || rule == ScaleRule::RoundUp;
  if (!scale.isF32() && !scale.isBF16() && !scale.isF16() &&
      !isa<Float8E8M0FNUType, Float8E4M3FNType>(scale))
    return emitError() << "scales are f32, bf16, f16, f8E8M0FNU or f8E4M3FN, "
                          "not "
                       << scale;
  if (scale.isF16() && (rule != ScaleRule::Amax || expand))
    return emitError()
           << "scales in f16 need rule 'amax' without 'expand', got '"
           << (expand ? "expand" : stringifyScaleRule(rule)) << "'";
  if (isa<Float8E8M0FNUType>(scale) && !isPower)
    return emitError() << "scales in f8E8M0FNU are powers of two, which '"
                       << stringifyScaleRule(rule) << "' does not produce";
  if (!format && rule != ScaleRule::Amax)
    return emitError() << "scales of a code book and of companded elements "
                          "follow 'amax', not '"
                       << stringifyScaleRule(rule) << "'";
  auto companded = dyn_cast<CompandedAttr>(element);
  if (companded && expand)
    return emitError() << "companded elements do not support 'expand'";
  if (companded &&
      failed(verifyCompanded(emitError, companded, scale, stochastic)))
    return failure();
  if (expand && rule != ScaleRule::Amax)
    return emitError() << "expanded elements have scales by 'amax', not '"
                       << stringifyScaleRule(rule) << "'";
  if (history < 0 ||
      (history > 0 && (granularity != Granularity::PerTensor || expand)))
    return emitError() << "a history needs at least one step, and one scale "
                          "per tensor without 'expand'";
  bool hasMargin =
      rule == ScaleRule::Inverse || rule == ScaleRule::InversePower;
  if (margin < 0 || margin > kMaxMargin || (margin > 0 && !hasMargin))
    return emitError() << "expected a margin of 0 to " << kMaxMargin
                       << ", with rule 'inverse' or 'inverse_power'";
  if (failed(verifyLevels(emitError, granularity, scale, rule, tensorScale)))
    return failure();
  return rule == ScaleRule::RoundedFourSix || rule == ScaleRule::RoundedEden
             ? verifyChosen(emitError, element, granularity, extent, rule,
                            stochastic, tensorScale)
             : success();
}

Attribute QuantizedAttr::parse(AsmParser &parser, Type) {
  Attribute element;
  auto granularity = Granularity::PerTensor;
  SmallVector<int64_t> extent;
  FloatType scale;
  auto rule = ScaleRule::Amax;
  bool expand = false, stochastic = false;
  int64_t history = 0, margin = 0;
  FloatType tensorScale;
  SMLoc start = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  FloatType format;
  OptionalParseResult parsed = parseOptionalFormat(parser, format);
  if (parsed.has_value() ? failed(*parsed)
                         : failed(parser.parseAttribute(element)))
    return {};
  if (format)
    element = TypeAttr::get(format);
  if (parser.parseComma() ||
      parseEnum(parser, getMaxEnumValForGranularity(), granularity))
    return {};
  auto parseSize = [&] { return parser.parseInteger(extent.emplace_back()); };
  if (succeeded(parser.parseOptionalLess()) &&
      (parser.parseCommaSeparatedList(parseSize) || parser.parseGreater()))
    return {};
  if (parser.parseComma() || parser.parseKeyword("scale") ||
      parser.parseEqual() || parseFormat(parser, scale))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    if (succeeded(parser.parseOptionalKeyword("expand"))) {
      expand = true;
      continue;
    }
    if (succeeded(parser.parseOptionalKeyword("stochastic"))) {
      stochastic = true;
      continue;
    }
    if (succeeded(parser.parseOptionalKeyword("history"))) {
      if (parser.parseEqual() || parser.parseInteger(history))
        return {};
      continue;
    }
    if (succeeded(parser.parseOptionalKeyword("margin"))) {
      if (parser.parseEqual() || parser.parseInteger(margin))
        return {};
      continue;
    }
    if (succeeded(parser.parseOptionalKeyword("tensor_scale"))) {
      if (parser.parseEqual() || parseFormat(parser, tensorScale))
        return {};
      continue;
    }
    if (parser.parseKeyword("rule") || parser.parseEqual() ||
        parseEnum(parser, getMaxEnumValForScaleRule(), rule))
      return {};
  }
  if (parser.parseGreater())
    return {};
  auto report = [&] { return parser.emitError(start); };
  if (failed(verify(report, element, granularity, extent, scale, rule, expand,
                    stochastic, history, margin, tensorScale)))
    return {};
  return get(parser.getContext(), element, granularity, extent, scale, rule,
             expand, stochastic, history, margin, tensorScale);
}

void QuantizedAttr::print(AsmPrinter &printer) const {
  printer << '<' << getElement() << ", "
          << stringifyGranularity(getGranularity());
  if (!getExtent().empty()) {
    printer << '<';
    llvm::interleaveComma(getExtent(), printer);
    printer << '>';
  }
  printer << ", scale = " << getScale();
  if (getTensorScale())
    printer << ", tensor_scale = " << getTensorScale();
  if (getRule() != ScaleRule::Amax)
    printer << ", rule = " << stringifyScaleRule(getRule());
  if (getExpand())
    printer << ", expand";
  if (getStochastic())
    printer << ", stochastic";
  if (getHistory() > 0)
    printer << ", history = " << getHistory();
  if (getMargin() > 0)
    printer << ", margin = " << getMargin();
  printer << '>';
}

//===----------------------------------------------------------------------===//
// SavedAttr
//===----------------------------------------------------------------------===//

uint64_t SavedAttr::getBytesAsIs() const { return getByteSize(getType()); }

uint64_t SavedAttr::getBytes() const {
  if (getChoice() == SavedChoice::Recompute)
    return 0;
  if (!getFormat())
    return getBytesAsIs();
  return getFormat().getBytes(cast<RankedTensorType>(getType()).getShape());
}
