//===- StoredNumbers.cpp - Ranges of constants and weights ----------------===//

#include "binade/IR/StoredNumbers.h"
#include "binade/Container/ExternalFile.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "llvm/Support/ScopedPrinter.h"
#include <charconv>
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// The largest relative error with which a format represents a number.
static constexpr double kTolerance = 0x1p-7;
/// The number of elements that are read at a time.
static constexpr size_t kPiece = 1 << 18;

void StoredNumbers::add(double number) {
  double magnitude = std::abs(number);
  if (!std::isfinite(number) || number == 0.0)
    return;
  most = std::max(most, number);
  least = std::min(least, number);
  smallest = isEmpty() ? magnitude : std::min(smallest, magnitude);
  squares += number * number;
  ++count;
}

double mlir::binade::roundTo(double number, FloatType format) {
  const llvm::fltSemantics &semantics = format.getFloatSemantics();
  APFloat value(number);
  bool losesInfo;
  value.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  if (!value.isFinite())
    value = APFloat::getLargest(semantics, number < 0);
  return value.convertToDouble();
}

/// Returns the shortest text for a number that was stored as f32 or f64:
/// "1e-08".
static std::string formatStored(double number) {
  float single = static_cast<float>(number);
  if (single != number)
    return formatNumber(number);
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof(text), single);
  return std::string(text, end);
}

//===----------------------------------------------------------------------===//
// Suitability of a format
//===----------------------------------------------------------------------===//

std::string mlir::binade::explainUnsuitable(const StoredNumbers &numbers,
                                            FloatType format, bool readsEach,
                                            function_ref<bool(double)> isMask) {
  if (numbers.isEmpty())
    return "";
  // A format with fewer bits rounds every number by more than that.
  double tolerance =
      std::max(kTolerance, std::ldexp(1.0, -int(format.getFPMantissaWidth())));
  auto describe = [&](const Twine &what, double number) {
    return (what + formatStored(number) + ", which becomes " +
            formatStored(roundTo(number, format)) + " in " +
            llvm::to_string(format))
        .str();
  };
  bool isOne = numbers.smallest == numbers.getMagnitude() &&
               (numbers.most == 0.0 || numbers.least == 0.0);
  StringRef has = isOne ? "is " : "has the element ";
  for (double number : {numbers.most, numbers.least}) {
    double rounded = roundTo(number, format);
    if (std::abs(number) > std::abs(rounded) * (1.0 + tolerance) &&
        std::abs(rounded) > 1.0 && !isMask(number))
      return describe(has, number);
  }
  bool isExact = isOne || readsEach; // Otherwise the error is only bounded.
  double counted = readsEach ? numbers.smallest : numbers.getMagnitude();
  double step =
      APFloat::getSmallest(format.getFloatSemantics()).convertToDouble();
  double error =
      isExact ? std::abs(roundTo(counted, format) - counted) : step / 2;
  if (error <= tolerance * counted || counted > 1.0)
    return "";
  if (isExact)
    return describe(has, counted);
  return "has no element larger than " + formatStored(counted) + ", but " +
         llvm::to_string(format) + " has steps of " + formatStored(step);
}

//===----------------------------------------------------------------------===//
// Reading of elements
//===----------------------------------------------------------------------===//

template <typename Word> static double decode(Word word, Type element) {
  auto format = cast<FloatType>(element);
  return APFloat(format.getFloatSemantics(), APInt(sizeof(Word) * 8, word))
      .convertToDouble();
}

template <typename Word>
static void addBytes(std::span<const std::byte> bytes, Type element,
                     StoredNumbers &numbers) {
  for (size_t begin = 0; begin + sizeof(Word) <= bytes.size();
       begin += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + begin, sizeof(Word));
    if (element.isF32())
      numbers.add(std::bit_cast<float>(uint32_t(word)));
    else
      numbers.add(decode(word, element));
  }
}

static std::optional<StoredNumbers> readFile(ExternalAttr attribute,
                                             StringRef directory) {
  Type element = cast<RankedTensorType>(attribute.getType()).getElementType();
  unsigned width = element.isF64() ? 0 : element.getIntOrFloatBitWidth();
  if (directory.empty() || (width != 32 && width != 16))
    return std::nullopt;
  ::binade::OpenOptions options;
  options.allowHardLinks = true; // Import decides which links are allowed.
  StringRef name = attribute.getFile().getValue();
  auto file = ::binade::openBeneath(
      directory.str(), std::string_view(name.data(), name.size()), options);
  if (!file)
    return std::nullopt;
  StoredNumbers numbers;
  std::vector<std::byte> piece(kPiece * width / 8);
  for (uint64_t done = 0; done < attribute.getBytes();) {
    auto part = std::span(piece).first(
        std::min<uint64_t>(piece.size(), attribute.getBytes() - done));
    if (!::binade::readRange(*file, attribute.getOffset() + done, part))
      return std::nullopt;
    if (width == 32)
      addBytes<uint32_t>(part, element, numbers);
    else
      addBytes<uint16_t>(part, element, numbers);
    done += part.size();
  }
  return numbers;
}

static std::optional<StoredNumbers> readAttribute(Attribute value,
                                                  StringRef directory) {
  auto typed = dyn_cast_if_present<TypedAttr>(value);
  auto type =
      typed ? dyn_cast<RankedTensorType>(typed.getType()) : RankedTensorType();
  if (!type || !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  if (auto external = dyn_cast<ExternalAttr>(value))
    return readFile(external, directory);
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return std::nullopt;
  StoredNumbers numbers;
  if (dense.isSplat())
    numbers.add(dense.getSplatValue<APFloat>().convertToDouble());
  else
    for (const APFloat &number : dense.getValues<APFloat>())
      numbers.add(number.convertToDouble());
  return numbers;
}

std::optional<StoredNumbers> mlir::binade::readStored(Value value,
                                                      StringRef directory) {
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return readAttribute(constant.getValue(), directory);
  auto argument = dyn_cast<BlockArgument>(value);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
               : func::FuncOp();
  if (!function)
    return std::nullopt;
  return readAttribute(function.getArgAttr(argument.getArgNumber(), kInitAttr),
                       directory);
}
