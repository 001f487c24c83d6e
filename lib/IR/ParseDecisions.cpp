//===- ParseDecisions.cpp - Text of #binade.precision and others ----------===//
//
// MLIR generates parsers for these attributes, but their errors name C++ types
// and appear twice. These name the formats and fields that exist, and the
// nearest one.
//
//===----------------------------------------------------------------------===//

#include "ParseFormat.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Binade.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// A field `name = value` of an attribute, and what parses its value.
struct Field {
  StringLiteral name;
  bool isRequired;
  function_ref<ParseResult()> parse;
};
} // namespace

static std::vector<std::string> copyNames(ArrayRef<StringLiteral> names) {
  return {names.begin(), names.end()};
}

OptionalParseResult mlir::binade::parseOptionalFormat(AsmParser &parser,
                                                      FloatType &format) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)))
    return std::nullopt;
  format = findFormat(word, parser.getContext());
  if (format)
    return success();
  return parser.emitError(loc)
         << "expected a format: " << joinNames(getFormatNames()) << "; got '"
         << word << "'" << ::binade::suggest(word, copyNames(getFormatNames()));
}

ParseResult mlir::binade::parseFormat(AsmParser &parser, FloatType &format) {
  OptionalParseResult parsed = parseOptionalFormat(parser, format);
  if (parsed.has_value())
    return *parsed;
  return parser.emitError(parser.getCurrentLocation())
         << "expected a format: " << joinNames(getFormatNames());
}

FailureOr<size_t> mlir::binade::parseWord(AsmParser &parser,
                                          ArrayRef<std::string> names) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  bool isWord = succeeded(parser.parseOptionalKeyword(&word));
  const std::string *found = llvm::find(names, word);
  if (isWord && found != names.end())
    return found - names.begin();
  InFlightDiagnostic error = parser.emitError(loc)
                             << "expected " << llvm::join(names, ", ");
  if (isWord)
    error << "; got '" << word << "'" << ::binade::suggest(word, names);
  return error;
}

/// Parses `<name = value, ...>`, with the fields in any order.
static ParseResult parseFields(AsmParser &parser, ArrayRef<Field> fields) {
  std::vector<std::string> names;
  for (const Field &field : fields)
    names.push_back(field.name.str());
  llvm::SmallDenseSet<StringRef> seen;
  SMLoc start = parser.getCurrentLocation();
  auto parseField = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    const Field *field = llvm::find_if(
        fields, [&](const Field &field) { return field.name == name; });
    if (field == fields.end())
      return parser.emitError(loc)
             << "expected " << llvm::join(names, ", ") << "; got '" << name
             << "'" << ::binade::suggest(name, names);
    if (!seen.insert(field->name).second)
      return parser.emitError(loc) << "'" << name << "' is given twice";
    return failure(parser.parseEqual() || field->parse());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseField))
    return failure();
  for (const Field &field : fields)
    if (field.isRequired && !seen.contains(field.name))
      return parser.emitError(start) << "expected '" << field.name << " = '";
  return success();
}

/// Prints `name = value`, after a comma unless it is the first one.
template <typename Value>
static void printField(AsmPrinter &printer, bool &isFirst, StringRef name,
                       Value value) {
  printer << (isFirst ? "" : ", ") << name << " = ";
  printer.printStrippedAttrOrType(value);
  isFirst = false;
}

Attribute PrecisionAttr::parse(AsmParser &parser, Type) {
  FloatType compute, accumulate, result;
  ArrayAttr operands;
  TransformAttr transform;
  AccumulationAttr accumulation;
  ClampAttr clamp;
  StringAttr rule;
  auto format = [&](FloatType &into) {
    return [&parser, &into] { return parseFormat(parser, into); };
  };
  auto readCompute = format(compute), readAccumulate = format(accumulate),
       readResult = format(result);
  auto readOperands = [&] { return parser.parseAttribute(operands); };
  auto readTransform = [&] {
    return parser.parseCustomAttributeWithFallback(transform);
  };
  auto readAccumulation = [&] {
    return parser.parseCustomAttributeWithFallback(accumulation);
  };
  auto readClamp = [&] {
    return parser.parseCustomAttributeWithFallback(clamp);
  };
  auto readRule = [&] { return parser.parseAttribute(rule); };
  SMLoc start = parser.getCurrentLocation();
  if (parseFields(parser, {{"compute", true, readCompute},
                           {"accumulate", false, readAccumulate},
                           {"result", true, readResult},
                           {"operands", false, readOperands},
                           {"transform", false, readTransform},
                           {"accumulation", false, readAccumulation},
                           {"clamp", false, readClamp},
                           {"rule", false, readRule}}))
    return {};
  return getChecked([&] { return parser.emitError(start); },
                    parser.getContext(), compute, accumulate, result, operands,
                    transform, accumulation, clamp, rule);
}

void PrecisionAttr::print(AsmPrinter &printer) const {
  bool isFirst = true;
  printer << '<';
  printField(printer, isFirst, "compute", getCompute());
  if (getAccumulate())
    printField(printer, isFirst, "accumulate", getAccumulate());
  printField(printer, isFirst, "result", getResult());
  if (getOperands())
    printField(printer, isFirst, "operands", getOperands());
  if (getTransform())
    printField(printer, isFirst, "transform", getTransform());
  if (getAccumulation())
    printField(printer, isFirst, "accumulation", getAccumulation());
  if (getClamp())
    printField(printer, isFirst, "clamp", getClamp());
  if (getRule())
    printField(printer, isFirst, "rule", getRule());
  printer << '>';
}

Attribute StochasticAttr::parse(AsmParser &parser, Type) {
  FloatType format;
  if (parser.parseLess() || parseFormat(parser, format) ||
      parser.parseGreater())
    return {};
  return get(parser.getContext(), format);
}

void StochasticAttr::print(AsmPrinter &printer) const {
  printer << '<' << getFormat() << '>';
}

Attribute StorageAttr::parse(AsmParser &parser, Type) {
  FloatType parameter, accumulator;
  Master master = Master::None;
  Attribute states;
  StringAttr rule;
  auto readParameter = [&] { return parseFormat(parser, parameter); };
  auto readMaster = [&] {
    return parseEnum(parser, getMaxEnumValForMaster(), master);
  };
  auto readStates = [&] { return parser.parseAttribute(states); };
  auto readAccumulator = [&] { return parseFormat(parser, accumulator); };
  auto readRule = [&] { return parser.parseAttribute(rule); };
  SMLoc start = parser.getCurrentLocation();
  if (parseFields(parser, {{"parameter", false, readParameter},
                           {"master", false, readMaster},
                           {"states", false, readStates},
                           {"accumulator", false, readAccumulator},
                           {"rule", false, readRule}}))
    return {};
  return getChecked([&] { return parser.emitError(start); },
                    parser.getContext(), parameter, master, states, accumulator,
                    rule);
}

void StorageAttr::print(AsmPrinter &printer) const {
  bool isFirst = true;
  printer << '<';
  if (getParameter())
    printField(printer, isFirst, "parameter", getParameter());
  if (getMaster() != Master::None) {
    printer << (isFirst ? "" : ", ")
            << "master = " << stringifyMaster(getMaster());
    isFirst = false;
  }
  if (getStates())
    printField(printer, isFirst, "states", getStates());
  if (getAccumulator())
    printField(printer, isFirst, "accumulator", getAccumulator());
  if (getRule())
    printField(printer, isFirst, "rule", getRule());
  printer << '>';
}
