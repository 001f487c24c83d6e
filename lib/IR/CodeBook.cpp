//===- CodeBook.cpp - Element formats that are tables of values -----------===//

#include "binade/IR/Binade.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static constexpr size_t kLargeBook = 256, kSmallBook = 16;

LogicalResult CodeBookAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringAttr name, DenseF32ArrayAttr values) {
  ArrayRef<float> numbers = values;
  if (numbers.size() != kLargeBook && numbers.size() != kSmallBook)
    return emitError() << "code book " << name << " has " << numbers.size()
                       << " values; expected " << kLargeBook << " or "
                       << kSmallBook;
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!std::isfinite(numbers[i]) ||
        (i > 0 && !(numbers[i - 1] <= numbers[i])))
      return emitError() << "code book " << name << " expects finite values in "
                         << "ascending order, got " << numbers[i]
                         << " as value " << i;
  if (!(numbers.back() > 0.0f))
    return emitError() << "code book " << name << " has no positive value";
  return success();
}

float CodeBookAttr::getThreshold(unsigned code) const {
  if (code == 0)
    return -INFINITY;
  float below = getValues()[code - 1], above = getValues()[code];
  if (isSigned() && above == 0.0f)
    return 0.0f; // Negative values stay negative.
  float middle = (below + above) * 0.5f;
  return code % 2 == 0 ? middle : std::nextafter(middle, INFINITY);
}

/// Parses `<"name", [x, y, ...]>`. Values are printed with enough digits to
/// restore their bits.
Attribute CodeBookAttr::parse(AsmParser &parser, Type) {
  std::string name;
  SmallVector<float> values;
  auto parseNumber = [&]() -> ParseResult {
    double number;
    if (parser.parseFloat(number))
      return failure();
    values.push_back(static_cast<float>(number));
    return success();
  };
  SMLoc start = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseString(&name) || parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     parseNumber) ||
      parser.parseGreater())
    return {};
  MLIRContext *context = parser.getContext();
  auto title = StringAttr::get(context, name);
  auto numbers = DenseF32ArrayAttr::get(context, values);
  auto report = [&] { return parser.emitError(start); };
  if (failed(verify(report, title, numbers)))
    return {};
  return get(context, title, numbers);
}

void CodeBookAttr::print(AsmPrinter &printer) const {
  printer << '<' << getName() << ", [";
  llvm::interleaveComma(getValues().asArrayRef(), printer, [&](float value) {
    printer << llvm::format("%.9e", static_cast<double>(value));
  });
  printer << "]>";
}
