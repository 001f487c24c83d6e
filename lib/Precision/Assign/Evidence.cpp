//===- Evidence.cpp - Ranges of values recorded by a run ------------------===//

#include "binade/Precision/Evidence.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Json.h"
#include "binade/IR/Diagnostics.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Fractions
//===----------------------------------------------------------------------===//

double RecordedRange::getUnderflow(FloatType format, double scale) const {
  // Half of the smallest magnitude is a tie, which rounds to 0.
  int tie = llvm::ilogb(APFloat::getSmallest(format.getFloatSemantics())) - 1;
  int64_t lost = 0;
  for (auto [exponent, number] : exponents)
    if (exponent + std::ilogb(scale) < tie)
      lost += number;
  int64_t nonZero = count - zeros;
  return nonZero > 0 ? static_cast<double>(lost) / nonZero : 0.0;
}

static bool becomesInfinite(double x, FloatType format) {
  APFloat rounded(x);
  bool losesInfo;
  rounded.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  return !rounded.isFinite();
}

double RecordedRange::getOverflow(FloatType format, double scale) const {
  int last = llvm::ilogb(APFloat::getLargest(format.getFloatSemantics()));
  int64_t lost = 0;
  for (auto [exponent, number] : exponents)
    if (exponent + std::ilogb(scale) > last)
      lost += number;
  if (lost == 0 && becomesInfinite(amax * scale, format))
    lost = 1;
  lost += nonFinite;
  return count > 0 ? static_cast<double>(lost) / count : 0.0;
}

double RecordedRange::getRms() const {
  // The mean of x^2 over [1, 2).
  constexpr double kMeanSquare = 7.0 / 3.0;
  double squares = 0;
  int64_t number = 0;
  for (auto [exponent, elements] : exponents) {
    squares += elements * kMeanSquare * std::ldexp(1.0, 2 * exponent);
    number += elements;
  }
  return number > 0 ? std::sqrt(squares / number) : 0.0;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

static constexpr int kVersion = 1;
static constexpr size_t kLargestFile = 256 << 20;

namespace {
class EvidenceReader {
public:
  EvidenceReader(StringRef file, MLIRContext *context)
      : file(file), context(context) {}

  FailureOr<Evidence> read(StringRef text) {
    ::binade::JsonLimits limits;
    limits.bytes = kLargestFile;
    limits.values = size_t(1) << 26;
    auto parsed =
        ::binade::parseJson(std::string_view(text.data(), text.size()),
                            ::binade::printable(file), limits);
    if (!parsed)
      return error(::binade::render(parsed.error()));
    if (!parsed->is_object() || !parsed->contains("binade_ranges"))
      return error("expected what 'binade train --record ranges=FILE' writes: "
                   "an object with the key 'binade_ranges'");
    if ((*parsed)["binade_ranges"] != kVersion)
      return error("expected ranges of version " + std::to_string(kVersion) +
                   ", found " + (*parsed)["binade_ranges"].dump());
    const json &values = (*parsed)["values"];
    if (!values.is_array())
      return error("expected a list of 'values'");
    Evidence evidence;
    evidence.name = llvm::sys::path::filename(file).str();
    for (const json &value : values)
      if (failed(readValue(value, evidence)))
        return failure();
    return evidence;
  }

private:
  InFlightDiagnostic error(const Twine &message) {
    return emitError(FileLineColLoc::get(context, file, 1, 1)) << message;
  }

  LogicalResult readValue(const json &value, Evidence &evidence) {
    if (!value.is_object() || !value.contains("value") ||
        !value["value"].is_string())
      return error("expected the name of each of the 'values' as its 'value'");
    std::string name = value["value"].get<std::string>();
    auto [entry, isNew] = evidence.ranges.try_emplace(name);
    if (!isNew)
      return error("two values are called " + ::binade::quote(name));
    RecordedRange &range = entry->second;
    int64_t counted = 0;
    for (auto [key, member] :
         {std::pair("count", &range.count), std::pair("zeros", &range.zeros),
          std::pair("nonfinite", &range.nonFinite)})
      if (failed(readCount(value, key, *member)))
        return error("of value " + ::binade::quote(name) +
                     ": expected a count as '" + key + "'");
    for (auto [key, member] : {std::pair("amax", &range.amax),
                               std::pair("smallest", &range.smallest)}) {
      if (!value.contains(key) || !value[key].is_number() ||
          value[key].get<double>() < 0)
        return error("of value " + ::binade::quote(name) +
                     ": expected a magnitude as '" + key + "'");
      *member = value[key].get<double>();
    }
    if (!value.contains("exponents") || !value["exponents"].is_object())
      return error("of value " + ::binade::quote(name) +
                   ": expected counts by exponent as 'exponents'");
    for (const auto &[key, number] : value["exponents"].items()) {
      int exponent;
      int64_t elements;
      if (StringRef(key).getAsInteger(10, exponent) ||
          failed(readCount(value["exponents"], key, elements)))
        return error("of value " + ::binade::quote(name) +
                     ": expected counts by exponent, found " +
                     ::binade::quote(key));
      range.exponents.emplace_back(exponent, elements);
      counted += elements;
    }
    if (counted + range.zeros + range.nonFinite != range.count)
      return error("of value " + ::binade::quote(name) + ": 'count' is " +
                   std::to_string(range.count) +
                   ", but zeros, nonfinite and exponents are " +
                   std::to_string(counted + range.zeros + range.nonFinite) +
                   " elements");
    return success();
  }

  static LogicalResult readCount(const json &object, StringRef key,
                                 int64_t &count) {
    auto found = object.find(key.str());
    if (found == object.end() || !found->is_number_integer() ||
        found->get<int64_t>() < 0 || found->get<int64_t>() > (int64_t(1) << 53))
      return failure();
    count = found->get<int64_t>();
    return success();
  }

  std::string file;
  MLIRContext *context;
};
} // namespace

FailureOr<Evidence> mlir::binade::readEvidence(StringRef file,
                                               MLIRContext *context) {
  auto opened = ::binade::openFile(file.str());
  ::binade::Result<std::string> text =
      opened ? ::binade::readText(*opened, kLargestFile) : opened.takeError();
  if (!text)
    return emitError(UnknownLoc::get(context))
           << "cannot read ranges '" << file << "': " << text.error().message;
  return EvidenceReader(file, context).read(*text);
}
