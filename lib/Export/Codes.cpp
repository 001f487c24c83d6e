//===- Codes.cpp - ONNX nodes of scaled formats ---------------------------===//

#include "Codes.h"
#include "Rounding.h"
#include "binade/IR/RangeExpansion.h"
#include "binade/Reference/FloatFormat.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

static constexpr double kMax = std::numeric_limits<float>::max();

//===----------------------------------------------------------------------===//
// Groups that share a scale
//===----------------------------------------------------------------------===//

Codes::Codes(OnnxWriter &w, QuantizedAttr format, ArrayRef<int64_t> shape)
    : w(w), format(format), shape(shape), flat(shape), arranged(shape),
      scaleShape(format.getScaleShape(shape)) {
  auto rank = static_cast<int64_t>(shape.size());
  ArrayRef<int64_t> extent = format.getExtent();
  padded = flat;
  switch (format.getGranularity()) {
  case Granularity::PerTensor:
    sharedAxes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    return;
  case Granularity::PerRow:
    spreadShape = arranged;
    if (rank > 0) {
      sharedAxes = {rank - 1};
      spreadShape.back() = 1;
    }
    return;
  case Granularity::PerGroup: {
    int64_t count = ShapedType::getNumElements(shape);
    int64_t size = std::min(extent[0], std::max<int64_t>(count, 1));
    int64_t groups = scaleShape.front();
    flat = {count};
    padded = {groups * size};
    arranged = {groups, size};
    sharedAxes = {1};
    spreadShape = {groups, 1};
    return;
  }
  case Granularity::PerBlock:
    arranged.assign(shape.begin(), shape.end() - std::min<int64_t>(rank, 2));
    spreadShape = arranged;
    for (int64_t axis = std::max<int64_t>(rank - 2, 0); axis < rank; ++axis) {
      int64_t size =
          std::min(extent[axis + 2 - rank], std::max<int64_t>(shape[axis], 1));
      padded[axis] = scaleShape[axis] * size;
      sharedAxes.push_back(arranged.size() + 1);
      arranged.append({scaleShape[axis], size});
      spreadShape.append({scaleShape[axis], 1});
    }
    return;
  }
}

/// Pads with zeros, which do not change the largest magnitudes.
std::string Codes::arrange(const std::string &x) {
  std::string y = reshape(x, shape, flat);
  if (padded != flat) {
    SmallVector<int64_t> pads(flat.size(), 0);
    for (auto [before, after] : llvm::zip(flat, padded))
      pads.push_back(after - before);
    y = w.add("Pad", {y, w.addInts(pads)});
  }
  return reshape(y, padded, arranged);
}

std::string Codes::restore(const std::string &x) {
  std::string y = reshape(x, arranged, padded);
  if (padded != flat)
    y = w.slice(y, SmallVector<int64_t>(flat.size(), 0), flat);
  return reshape(y, flat, shape);
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

Codes::Factors Codes::choose(const std::string &largest,
                             const std::string &least) {
  Factors factors;
  std::string amax = largest;
  if (format.getExpand()) {
    ExpansionNodes nodes(w);
    ExpansionNodes::Shared shared =
        nodes.choose(largest, least, expansion::getBound(format));
    amax = nodes.expandLargest(largest, shared);
    std::tie(factors.power, factors.centre) = {shared.power, shared.centre};
  }
  Scales scales = ScaleNodes(w).add("", amax, format);
  factors.scale = scales.factors;
  factors.factor =
      scales.multipliers.empty() ? scales.divisors : scales.multipliers;
  return factors;
}

/// Returns the smaller of both; NaN if `x` is.
std::string Codes::limit(const std::string &x, double limit) {
  std::string most = w.addFloat(limit);
  return w.add("Where", {w.add("Greater", {x, most}), most, x});
}

/// Returns the inverse of the scale of a tensor.
std::string Codes::chooseTensorFactor(const std::string &tensor) {
  std::string one = w.addFloat(1.0), zero = w.addFloat(0.0);
  std::string peak = w.addFloat(format.getTensorPeak());
  std::string factor = limit(w.add("Div", {peak, tensor}), kMax);
  for (const std::string &number : {tensor, factor})
    factor = w.add("Where", {w.add("Equal", {number, zero}), one, factor});
  return factor;
}

/// Returns the factor of elements with these scales.
std::string Codes::invert(const Factors &factors) {
  std::string whole = factors.tensorScale.empty()
                          ? factors.scale
                          : w.add("Mul", {factors.scale, factors.tensorScale});
  return limit(w.add("Div", {w.addFloat(1.0), whole}), kMax);
}

Codes::Factors Codes::chooseBlocks(const std::string &largest,
                                   const std::string &tensor) {
  std::string one = w.addFloat(1.0), tensorFactor = one;
  Factors factors;
  if (format.getTensorScale()) {
    tensorFactor = chooseTensorFactor(tensor);
    factors.tensorScale = w.add("Div", {one, tensorFactor});
  }
  if (format.roundsScales()) {
    std::string inverse =
        w.addFloat(1.0f / static_cast<float>(format.getPeak()));
    std::string unit = w.add("Mul", {tensorFactor, inverse});
    FloatType stored = format.getScale();
    std::string scale =
        limit(w.add("Mul", {largest, unit}), mlir::binade::getLargest(stored));
    factors.scale = w.cast(w.cast(scale, stored), w.b.getF32Type());
  } else {
    std::string scaled = w.add("Mul", {largest, tensorFactor});
    factors.scale =
        ScaleNodes(w).add("", scaled, format.withoutTensorScale()).factors;
  }
  factors.factor = invert(factors);
  return factors;
}

//===----------------------------------------------------------------------===//
// Encoding and decoding
//===----------------------------------------------------------------------===//

/// Builds a binary search: the index of the last of `thresholds` that is at
/// most `x`. Their number is a power of two, the first one counts as -infinity,
/// and NaN is above all.
std::string Codes::search(const std::string &x, ArrayRef<float> thresholds) {
  auto count = static_cast<int64_t>(thresholds.size());
  auto type = RankedTensorType::get({count}, w.b.getF32Type());
  std::string table = w.addTable(DenseElementsAttr::get(type, thresholds));
  std::string index = w.addInt(0);
  for (int64_t step = count / 2; step > 0; step /= 2) {
    std::string next = step == count / 2
                           ? w.addInt(step)
                           : w.add("Add", {index, w.addInt(step)});
    std::string isBelow = w.add("Less", {x, w.add("Gather", {table, next})});
    index = w.add("Where", {isBelow, index, next});
  }
  return index;
}

static std::string gather(OnnxWriter &w, ArrayRef<float> table,
                          const std::string &index) {
  auto type = RankedTensorType::get({static_cast<int64_t>(table.size())},
                                    w.b.getF32Type());
  return w.add("Gather",
               {w.addTable(DenseElementsAttr::get(type, table)), index});
}

std::string Codes::encodeInBook(const std::string &y,
                                const std::string &random) {
  ArrayRef<float> values = format.getBook().getValues();
  auto count = static_cast<int64_t>(values.size());
  SmallVector<float> thresholds;
  // Of codes with equal values, the last one is used.
  SmallVector<int8_t> codes;
  for (int64_t code = 0; code < count; ++code) {
    thresholds.push_back(format.getBook().getThreshold(code));
    codes.push_back(llvm::upper_bound(values, values[code]) - values.begin() -
                    1);
  }
  std::string index = search(y, thresholds);
  if (format.getStochastic()) {
    std::string zero = w.addInt(0), one = w.addInt(1);
    std::string nearest = gather(w, values, index);
    std::string isAbove = w.add("Greater", {nearest, y});
    std::string low = w.add("Sub", {index, w.cast(isAbove, w.b.getI64Type())});
    low = w.add("Max", {low, zero});
    std::string high =
        w.add("Min", {w.add("Add", {low, one}), w.addInt(count - 1)});
    std::string from = gather(w, values, low), to = gather(w, values, high);
    std::string way =
        w.add("Div", {w.add("Sub", {y, from}), w.add("Sub", {to, from})});
    index = w.add("Where", {w.add("Less", {random, way}), high, low});
  }
  auto type = RankedTensorType::get({count}, w.b.getI8Type());
  std::string table =
      w.addTable(DenseElementsAttr::get(type, ArrayRef<int8_t>(codes)));
  return w.add("Gather", {table, restore(index)});
}

/// Returns the nonnegative values of a format of less than 8 bits.
static SmallVector<float> listMagnitudes(FloatType type) {
  FloatFormat format(type.getFloatSemantics());
  SmallVector<float> numbers;
  for (unsigned code = 0; code < 1u << (format.width - 1); ++code)
    numbers.push_back(static_cast<float>(format.decode(code)));
  return numbers;
}

/// Encodes in a format of less than 8 bits, for which no ONNX type is used: a
/// code is the index of the magnitude, plus a sign bit: that of `exact`, which
/// `y` has lost if it is a negative number rounded to 0.
std::string Codes::encodeSmall(const std::string &y, const std::string &exact) {
  SmallVector<float> numbers = listMagnitudes(format.getFormat());
  SmallVector<float> thresholds = {0.0f};
  for (size_t code = 1; code < numbers.size(); ++code) {
    float middle = (numbers[code - 1] + numbers[code]) * 0.5f;
    thresholds.push_back(code % 2 == 0 ? middle
                                       : std::nextafter(middle, INFINITY));
  }
  std::string index = search(w.add("Abs", {y}), thresholds);
  std::string isNegative = w.isNegative(exact, w.b.getF32Type());
  std::string signBit = w.addInt(static_cast<int64_t>(numbers.size()));
  std::string negative = w.add("Add", {index, signBit});
  std::string code = w.add("Where", {isNegative, negative, index});
  return w.cast(restore(code), format.getCodeType());
}

/// Encodes elements, or their roots, that have been divided by their scales.
std::string Codes::encodeCompanded(std::string y) {
  CompandedAttr companded = format.getCompanded();
  std::string zero = w.addFloat(0.0), one = w.addFloat(1.0);
  y = w.add("Where", {w.add("IsNaN", {y}), zero, y});
  y = w.add("Min", {y, one});
  y = w.add("Max", {y, companded.isSigned() ? w.addFloat(-1.0) : zero});
  if (companded.hasSoftsign())
    y = w.add("Div", {w.add("Mul", {y, w.addFloat(2.0)}),
                      w.add("Add", {w.add("Abs", {y}), one})});
  auto largest = static_cast<double>(companded.getLargestCode());
  y = w.add("Add", {w.add("Mul", {y, w.addFloat(largest)}), w.addFloat(0.5)});
  std::string code = w.cast(w.add("Floor", {y}), w.b.getI64Type());
  if (!companded.isSigned()) {
    std::string below = w.add("Sub", {code, w.addInt(256)});
    std::string isHigh = w.add("Greater", {code, w.addInt(127)});
    code = w.add("Where", {isHigh, below, code});
  }
  return w.cast(restore(code), w.b.getI8Type());
}

/// Decodes to elements, or their roots, before they are multiplied by scales.
std::string Codes::decodeCompanded(const std::string &codes) {
  CompandedAttr companded = format.getCompanded();
  std::string code = w.cast(codes, w.b.getI64Type());
  if (!companded.isSigned()) {
    std::string above = w.add("Add", {code, w.addInt(256)});
    code = w.add("Where", {w.add("Less", {code, w.addInt(0)}), above, code});
  }
  auto largest = static_cast<double>(companded.getLargestCode());
  std::string t =
      w.add("Div", {w.cast(code, w.b.getF32Type()), w.addFloat(largest)});
  if (!companded.hasSoftsign())
    return t;
  return w.add("Div", {t, w.add("Sub", {w.addFloat(2.0), w.add("Abs", {t})})});
}

std::string Codes::encode(const std::string &given, const Factors &factors,
                          bool saturate, const std::string &random) {
  std::string x = arrange(given), factor = spread(factors.factor), y;
  if (format.getExpand()) {
    y = ExpansionNodes(w).expand(x, spread(factors), factor);
  } else {
    y = w.add(format.multiplies() ? "Mul" : "Div", {x, factor});
  }
  if (format.getCompanded())
    return encodeCompanded(y);
  std::string chance = format.getStochastic() ? arrange(random) : "";
  FloatType type = format.getFormat();
  if (!type)
    return encodeInBook(y, chance);
  std::string exact = y;
  if (format.getStochastic())
    y = roundTo(w, y, type, chance);
  if (type.getWidth() < 8)
    return encodeSmall(y, exact);
  y = restore(y);
  if (saturate && type.getWidth() > 8) {
    double largest = format.getLargest();
    y = w.add("Max",
              {w.add("Min", {y, w.addFloat(largest)}), w.addFloat(-largest)});
  }
  std::string codes = w.cast(y, type);
  if (type.getWidth() == 8)
    w.setInt("saturate", saturate);
  return codes;
}

/// Packs two codes in each byte, the first in the upper half.
std::string Codes::pack(const std::string &codes) {
  int64_t count = ShapedType::getNumElements(shape), bytes = (count + 1) / 2;
  std::string x = w.reshape(w.cast(codes, w.b.getI64Type()), {count});
  if (count % 2 != 0)
    x = w.add("Pad", {x, w.addInts({0, 1})});
  x = w.add("Mul", {w.reshape(x, {bytes, 2}), w.addInts({16, 1})});
  x = w.reduce("ReduceSum", x, {1});
  std::string isNegative = w.add("Greater", {x, w.addInt(127)});
  std::string below = w.add("Sub", {x, w.addInt(256)});
  return w.cast(w.add("Where", {isNegative, below, x}), w.b.getI8Type());
}

/// Unpacks codes to i64, one per element.
std::string Codes::unpack(const std::string &codes) {
  std::string x = w.cast(codes, w.b.getI64Type());
  if (!format.isPacked())
    return x;
  int64_t count = ShapedType::getNumElements(shape), bytes = (count + 1) / 2;
  std::string isNegative = w.add("Less", {x, w.addInt(0)});
  x = w.add("Where", {isNegative, w.add("Add", {x, w.addInt(256)}), x});
  std::string high = w.add("Div", {x, w.addInt(16)});
  std::string low = w.add("Sub", {x, w.add("Mul", {high, w.addInt(16)})});
  x = w.add("Concat",
            {w.reshape(high, {bytes, 1}), w.reshape(low, {bytes, 1})});
  w.setInt("axis", 1);
  x = w.slice(w.reshape(x, {2 * bytes}), {0}, {count});
  return w.reshape(x, shape);
}

/// Decodes codes to unscaled f32 values. A negative i8 code indexes the table
/// from its end, as Gather does.
std::string Codes::decode(const std::string &codes) {
  if (format.getCompanded())
    return decodeCompanded(codes);
  FloatType type = format.getFormat();
  if (!type)
    return gather(w, format.getBook().getValues(), unpack(codes));
  if (type.getWidth() >= 8)
    return w.cast(codes, w.b.getF32Type());
  SmallVector<float> numbers = listMagnitudes(type);
  for (float number : SmallVector<float>(numbers))
    numbers.push_back(-number);
  return gather(w, numbers, unpack(codes));
}

//===----------------------------------------------------------------------===//
// Quantization and dequantization
//===----------------------------------------------------------------------===//

SmallVector<std::string> Codes::quantize(const std::string &given,
                                         bool saturate,
                                         const std::string &random,
                                         const std::string &largest) {
  std::string x = format.takesRoots() ? w.add("Sqrt", {given}) : given;
  std::string magnitude = w.add("Abs", {arrange(x)});
  std::string amax = largest, least;
  if (amax.empty())
    amax = w.reduceMax(magnitude, sharedAxes);
  if (format.getExpand()) {
    std::string isZero = w.add("Equal", {magnitude, w.addFloat(0.0)});
    std::string others =
        w.add("Where", {isZero, w.addFloat(INFINITY), magnitude});
    least = w.reduce("ReduceMin", others, sharedAxes);
  }
  std::string tensor;
  if (format.getTensorScale())
    tensor = w.reduceMax(
        magnitude, llvm::to_vector(llvm::seq<int64_t>(0, arranged.size())));
  Factors factors = format.comparesScales()   ? chooseBetter(x, amax, tensor)
                    : format.hasBlockScales() ? chooseBlocks(amax, tensor)
                                              : choose(amax, least);
  std::string codes = encode(x, factors, saturate, random);
  if (format.correctsScales())
    factors.scale = correctScales(x, factors, tensor, random);
  SmallVector<std::string> parts = {format.isPacked() ? pack(codes) : codes,
                                    factors.scale};
  if (format.getExpand())
    parts.append({factors.power, factors.centre});
  if (format.getTensorScale())
    parts.push_back(factors.tensorScale);
  return parts;
}

/// Builds log2 of the magnitudes of codes. `number` has their decoded values,
/// arranged in groups.
std::string Codes::findLogarithm(const std::string &codes,
                                 const std::string &number) {
  if (format.getFormat()) {
    std::string magnitude = w.add("Abs", {number});
    ExpansionNodes nodes(w);
    return format.getFormat().getWidth() > 8 ? nodes.findLogarithm(magnitude)
                                             : nodes.roundLogarithm(magnitude);
  }
  SmallVector<float> logs;
  for (float value : format.getBook().getValues().asArrayRef())
    logs.push_back(static_cast<float>(std::log2(std::fabs(double(value)))));
  return arrange(gather(w, logs, unpack(codes)));
}

std::string Codes::dequantize(ArrayRef<std::string> parts) {
  std::string number = arrange(decode(parts[0])), scale = spread(parts[1]);
  if (format.getTensorScale())
    return restore(w.add("Mul", {w.add("Mul", {number, scale}), parts[2]}));
  if (!format.getExpand()) {
    std::string y = w.add("Mul", {number, scale});
    return restore(format.takesRoots() ? w.add("Mul", {y, y}) : y);
  }
  std::string logarithm = findLogarithm(parts[0], number);
  Factors factors{parts[1], "", parts[2], parts[3]};
  return restore(
      ExpansionNodes(w).contract(logarithm, number, spread(factors), scale));
}
