//===- StateFormats.cpp - Formats of optimizer states by name -------------===//

#include "binade/Precision/StateFormats.h"
#include "PolicySchema.h"
#include "binade/Config/DataFiles.h"
#include "binade/IR/QuantizedOperands.h"
#include "binade/IR/Rules.h"
#include "binade/IR/Shards.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ScopedPrinter.h"

namespace mlir::binade {
const DataFiles &getFormatFiles();
const DataFiles &getCodeBookFiles();

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {
struct BookFile {
  std::vector<double> values;
};

/// The functions that compand states which may be negative, and others.
struct CompandingKeys {
  std::optional<Companding> ofSigned, ofUnsigned;
};

struct FormatFile {
  std::string summary;
  FloatType element;
  std::optional<CompandingKeys> compand;
  std::string signedBook, unsignedBook;
  int64_t group = 0;
  std::optional<Granularity> granularity;
  std::vector<int64_t> block;
  FloatType scale, tensorScale;
  ScaleRule rule = ScaleRule::Amax;
  bool expand = false;
  int64_t history = 0, margin = 0;

  Granularity getGranularity() const {
    if (!block.empty())
      return Granularity::PerBlock;
    return granularity.value_or(Granularity::PerGroup);
  }
  SmallVector<int64_t> getExtent() const {
    if (getGranularity() == Granularity::PerGroup)
      return {group};
    return {block.begin(), block.end()};
  }
};
} // namespace

static YamlSchema<BookFile> bookSchema() {
  constexpr double kBound = std::numeric_limits<float>::max();
  return yamlMapping<BookFile>(
      "a code book",
      {yamlKey("values", "The value of each code", &BookFile::values,
               yamlList(yamlNumber(-kBound, kBound)))});
}

static LogicalResult checkFormat(YamlReader &reader, YamlReader::Node &node,
                                 FormatFile &format) {
  bool hasBooks = !format.signedBook.empty() && !format.unsignedBook.empty();
  bool hasNone = format.signedBook.empty() && format.unsignedBook.empty();
  int kinds = bool(format.element) + bool(format.compand) + !hasNone;
  if (kinds != 1 || (!hasNone && !hasBooks))
    return reader.error(node, "a format has either an element, two code books, "
                              "signed and unsigned, or 'compand'");
  bool sharesAlong = format.granularity == Granularity::PerTensor ||
                     format.granularity == Granularity::PerRow;
  if (format.granularity && !sharesAlong)
    return reader.error(node, "'per' is per_tensor or per_row; groups and "
                              "blocks have a size");
  if ((format.group > 0) + !format.block.empty() + sharesAlong != 1)
    return reader.error(node, "a format has one of group, block and per");
  if (!format.block.empty() && format.block.size() != 2)
    return reader.error(node, "a block has rows and columns");
  if (!format.scale)
    format.scale = Float32Type::get(reader.getContext());
  return success();
}

/// Returns the schema of an element format.
static YamlSchema<FloatType> elementSchema() {
  SmallVector<StringLiteral> names(kByteFloats.begin(), kByteFloats.end());
  names.append({"f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "f16"});
  return yamlFormat(names);
}

static YamlSchema<CompandingKeys> compandingSchema() {
  auto function = yamlEnum(stringifyCompanding, getMaxEnumValForCompanding());
  return yamlMapping<CompandingKeys>(
      "the functions of a companded format",
      {yamlKey("signed", "Function of states that may be negative",
               &CompandingKeys::ofSigned, function),
       yamlKey("unsigned", "Function of states that are never negative",
               &CompandingKeys::ofUnsigned, function)},
      [](YamlReader &reader, YamlReader::Node &node, CompandingKeys &keys) {
        if (!keys.ofSigned || !keys.ofUnsigned)
          return reader.error(node, "'compand' has two functions, signed and "
                                    "unsigned");
        if (*keys.ofSigned != Companding::Softsign)
          return reader.error(node, "the function of states that may be "
                                    "negative is softsign; the others take "
                                    "square roots");
        return success();
      });
}

static YamlSchema<FormatFile> formatSchema() {
  return yamlMapping<FormatFile>(
      "a format",
      {yamlKey("summary", "What the format is", &FormatFile::summary,
               yamlString()),
       yamlKey("element", "Float format of at most 8 bits, or f16",
               &FormatFile::element, elementSchema()),
       yamlKey("signed", "Code book of states that may be negative",
               &FormatFile::signedBook, yamlString()),
       yamlKey("unsigned", "Code book of states that are never negative",
               &FormatFile::unsignedBook, yamlString()),
       yamlKey("compand",
               "Functions by which 8-bit integers are spaced: softsign, sqrt "
               "or sqrt_softsign",
               &FormatFile::compand, compandingSchema()),
       yamlKey("group", "Consecutive elements that share a scale",
               &FormatFile::group, yamlCount(1)),
       yamlKey("block", "Rows and columns that share a scale",
               &FormatFile::block, yamlList(yamlCount(1))),
       yamlKey("per",
               "Other elements that share a scale: per_tensor or per_row",
               &FormatFile::granularity,
               yamlEnum(stringifyGranularity, getMaxEnumValForGranularity())),
       yamlKey("rule", "How the scale is computed from the largest magnitude",
               &FormatFile::rule,
               yamlEnum(stringifyScaleRule, getMaxEnumValForScaleRule())),
       yamlKey("scale",
               "Format of scales: f32, bf16, f16, f8E8M0FNU or f8E4M3FN",
               &FormatFile::scale,
               yamlFormat({"f32", "bf16", "f16", "f8E8M0FNU", "f8E4M3FN"})),
       yamlKey("tensor_scale",
               "Format of a scale of the whole tensor above those of blocks",
               &FormatFile::tensorScale, yamlFormat({"f32"})),
       yamlKey(
           "expand",
           "Whether magnitudes are raised to a power before (range expansion)",
           &FormatFile::expand, yamlFlag()),
       yamlKey("history",
               "Number of earlier steps whose largest magnitude sets the scale",
               &FormatFile::history, yamlCount(1)),
       yamlKey(
           "margin",
           "Powers of two between the largest magnitude and the format's limit",
           &FormatFile::margin, yamlCount(1))},
      checkFormat);
}

/// Finds the code book `name`; looks for a file next to `reader`.
static FailureOr<Attribute> findBook(StringRef name, StringRef reader,
                                     Location location) {
  MLIRContext *context = location->getContext();
  FailureOr<DataFile> file =
      findFile({"code book", getCodeBookFiles()}, name,
               llvm::sys::path::parent_path(reader), location);
  if (failed(file))
    return failure();
  FailureOr<BookFile> book =
      parseFile(*file, "a code book", bookSchema(), context);
  if (failed(book))
    return failure();
  SmallVector<float> values(book->values.begin(), book->values.end());
  auto title = StringAttr::get(context, llvm::sys::path::stem(file->file));
  auto numbers = DenseF32ArrayAttr::get(context, values);
  auto start = FileLineColLoc::get(context, file->file, 1, 1);
  auto report = [&] { return emitError(start); };
  if (failed(CodeBookAttr::verify(report, title, numbers)))
    return failure();
  return Attribute(CodeBookAttr::get(context, title, numbers));
}

static FailureOr<StateFormats> build(const FormatFile &format, StringRef file,
                                     MLIRContext *context) {
  Location start = FileLineColLoc::get(context, file, 1, 1);
  StateFormats formats;
  CompandingKeys functions = format.compand.value_or(CompandingKeys());
  for (auto [book, function, into] :
       {std::tuple(&format.signedBook, functions.ofSigned, &formats.ofSigned),
        std::tuple(&format.unsignedBook, functions.ofUnsigned,
                   &formats.ofUnsigned)}) {
    Attribute element;
    if (format.element) {
      element = TypeAttr::get(format.element);
    } else if (function) {
      element = CompandedAttr::get(context, *function);
    } else {
      FailureOr<Attribute> found = findBook(*book, file, start);
      if (failed(found))
        return failure();
      element = *found;
    }
    auto report = [&] { return emitError(start); };
    Granularity granularity = format.getGranularity();
    SmallVector<int64_t> extent = format.getExtent();
    if (failed(QuantizedAttr::verify(report, element, granularity, extent,
                                     format.scale, format.rule, format.expand,
                                     /*stochastic=*/false, format.history,
                                     format.margin, format.tensorScale)))
      return failure();
    *into = QuantizedAttr::get(context, element, granularity, extent,
                               format.scale, format.rule, format.expand,
                               /*stochastic=*/false, format.history,
                               format.margin, format.tensorScale);
  }
  return formats;
}

/// Formats that are found by name, with a description.
struct NamedFormats {
  StateFormats formats;
  std::string summary;
};

/// Returns `format` with stochastic rounding; null for f32, which rounds
/// nothing.
static Attribute getStochastic(Attribute format) {
  MLIRContext *context = format.getContext();
  if (auto type = dyn_cast<TypeAttr>(format)) {
    auto number = cast<FloatType>(type.getValue());
    return number.isF32() ? Attribute() : StochasticAttr::get(context, number);
  }
  return cast<QuantizedAttr>(format).withRounding(/*stochastic=*/true);
}

/// Finds the format called `name`. An error about an unknown name offers
/// `floats`, and the shipped files for which `isOffered` holds, if it is given.
static FailureOr<NamedFormats>
findOne(StringRef name, Location location, ArrayRef<StringLiteral> floats = {},
        const std::function<bool(StringRef)> &isOffered = nullptr) {
  MLIRContext *context = location->getContext();
  if (name.consume_back(kStochastic)) {
    FailureOr<NamedFormats> found = findOne(name, location, floats, isOffered);
    if (failed(found))
      return failure();
    auto quantized = dyn_cast<QuantizedAttr>(found->formats.ofSigned);
    if (quantized && quantized.comparesScales())
      return emitError(location)
             << "format '" << name << "' chooses scales by the errors of "
             << "rounding to nearest, and cannot be '" << kStochastic
             << "'; use a format with rule 'rounded_headroom'";
    if (quantized && quantized.correctsScales())
      return emitError(location)
             << "format '" << name << "' rounds its scales stochastically, and "
             << "cannot be '" << kStochastic
             << "'; use a format with rule 'rounded_headroom'";
    if (quantized && quantized.getCompanded())
      return emitError(location)
             << "format '" << name << "' rounds values that '"
             << describeElement(quantized) << "' has compressed, so that "
             << "stochastic rounding would be biased; remove ':" << kStochastic
             << "'";
    for (Attribute *format :
         {&found->formats.ofSigned, &found->formats.ofUnsigned})
      if (!(*format = getStochastic(*format)))
        return emitError(location)
               << "format '" << name << "' rounds no value: '" << kStochastic
               << "' needs a narrower format than f32";
    return found;
  }
  if (!name.ends_with(kDataSuffix) && name.contains(':'))
    return emitError(location) << "expected '" << kStochastic
                               << "' or nothing after the name of a format, "
                               << "found '" << name << "'";
  if (llvm::is_contained(kComputedFloats, name)) {
    Attribute type = TypeAttr::get(findFormat(name, context));
    return NamedFormats{{type, type}, "not quantized"};
  }
  FailureOr<DataFile> file =
      findFile({"format", getFormatFiles(), floats, isOffered}, name,
               std::nullopt, location);
  if (failed(file))
    return failure();
  FailureOr<FormatFile> format =
      parseFile(*file, "a format", formatSchema(), context);
  if (failed(format))
    return failure();
  FailureOr<StateFormats> formats = build(*format, file->file, context);
  if (failed(formats))
    return failure();
  return NamedFormats{*formats, format->summary};
}

std::pair<StringRef, StringRef> splitStates(StringRef text) {
  size_t colon = text.rfind(':');
  while (colon != StringRef::npos &&
         StringRef(text.substr(colon).split('+').first) == kStochastic)
    colon = text.take_front(colon).rfind(':');
  if (colon == StringRef::npos)
    return {StringRef(), text};
  return {text.take_front(colon), text.drop_front(colon + 1)};
}

SmallVector<StringRef> getFormatNames(StringRef states) {
  SmallVector<StringRef> names;
  splitStates(states).second.split(names, '+', /*MaxSplit=*/1);
  for (StringRef &name : names)
    name.consume_back(kStochastic);
  return names;
}

/// Whether optimizer updates can dequantize and quantize the format.
static bool isOfStates(Attribute format) {
  auto quantized = dyn_cast<QuantizedAttr>(format);
  return !quantized || quantized.getGranularity() == Granularity::PerGroup;
}

static FailureOr<NamedFormats> findOneOfStates(StringRef name,
                                               Location location) {
  auto isOffered = [&](StringRef shipped) {
    FailureOr<NamedFormats> found = findOne(shipped, location);
    return succeeded(found) && isOfStates(found->formats.ofSigned);
  };
  FailureOr<NamedFormats> found =
      findOne(name, location, kComputedFloats, isOffered);
  if (succeeded(found) && !isOfStates(found->formats.ofSigned))
    return emitError(location)
           << "format '" << name << "' has scales "
           << stringifyGranularity(
                  cast<QuantizedAttr>(found->formats.ofSigned).getGranularity())
           << "; states need a format with 'group'";
  return found;
}

FailureOr<QuantizedAttr> findTensorFormat(StringRef name, Location location,
                                          ArrayRef<StringLiteral> others) {
  FailureOr<NamedFormats> found = findOne(name, location, others);
  if (failed(found))
    return failure();
  auto format = dyn_cast<QuantizedAttr>(found->formats.ofSigned);
  if (!format)
    return emitError(location)
           << "format '" << name
           << "' has no scales; use 'compute' to round operands to it";
  if (format.getCompanded())
    return emitError(location)
           << "format '" << name
           << "' is companded; only optimizer states can have it";
  return format;
}

FailureOr<StateFormats> findStateFormats(StringRef name, Location location) {
  auto [first, second] = name.split('+');
  FailureOr<NamedFormats> found = findOneOfStates(first, location);
  if (failed(found))
    return failure();
  if (second.empty())
    return found->formats;
  FailureOr<NamedFormats> others = findOneOfStates(second, location);
  if (failed(others))
    return failure();
  return StateFormats{found->formats.ofSigned, others->formats.ofUnsigned};
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

/// Returns the bytes per element in a tensor of many groups.
static double getBytes(Attribute format) {
  if (auto type = dyn_cast<TypeAttr>(format))
    return type.getValue().getIntOrFloatBitWidth() / 8.0;
  constexpr int64_t kMany = 1 << 20, kRow = 1 << 10;
  uint64_t bytes = cast<QuantizedAttr>(format).getBytes({kMany / kRow, kRow});
  return static_cast<double>(bytes) / kMany;
}

std::vector<FormatInfo> listFormats(MLIRContext *context) {
  std::vector<StringRef> names(kComputedFloats.begin(), kComputedFloats.end());
  llvm::append_range(names, getNames(getFormatFiles()));
  std::vector<FormatInfo> list;
  for (StringRef name : names)
    if (FailureOr<NamedFormats> found = findOne(name, UnknownLoc::get(context));
        succeeded(found))
      list.push_back({name.str(), found->summary,
                      getBytes(found->formats.ofSigned),
                      isOfStates(found->formats.ofSigned)});
  return list;
}

Attribute chooseStates(const StateFormats &formats, OptimizerUpdateOp op,
                       bool quantizes) {
  auto rule = SymbolTable::lookupNearestSymbolFrom<OptimizerOp>(
      op, op.getOptimizerAttr());
  Attribute wide = TypeAttr::get(Float32Type::get(op.getContext()));
  SmallVector<Attribute> chosen;
  for (auto [state, kept] : llvm::zip(
           rule.getStates().getAsRange<SettingAttr>(), op.getKeptStates())) {
    bool isUnsigned = state.getMin() && state.getMin().getValueAsDouble() >= 0;
    Attribute format = isUnsigned ? formats.ofUnsigned : formats.ofSigned;
    if (auto quantized = dyn_cast<QuantizedAttr>(format))
      format = fitGroupsToRows(quantized, op.getParameter());
    // The error of an offset would be one of the exported weights.
    bool isExact = !quantizes || findEvaluationOffset(rule) == kept.index;
    bool isWide = !format || (isa<QuantizedAttr>(format) && isExact);
    // States of rows or columns are small, so they stay in f32.
    chosen.push_back(isWide || !op.isElementwise(kept) ? wide : format);
  }
  if (chosen.empty())
    return {};
  bool isOneFloat =
      llvm::all_equal(chosen) && !isa<QuantizedAttr>(chosen.front());
  return isOneFloat ? chosen.front() : ArrayAttr::get(op.getContext(), chosen);
}

std::string describeFormat(Attribute format) {
  if (auto type = dyn_cast<TypeAttr>(format))
    return llvm::to_string(type.getValue());
  if (auto random = dyn_cast<StochasticAttr>(format))
    return llvm::to_string(random.getFormat()) + " stochastic";
  auto quantized = cast<QuantizedAttr>(format);
  std::string text = describeElement(quantized);
  for (int64_t size : quantized.getExtent())
    text += "/" + std::to_string(size);
  if (quantized.getExtent().empty())
    text += quantized.getGranularity() == Granularity::PerTensor ? " per tensor"
                                                                 : " per row";
  if (quantized.getExpand())
    text += " expanded";
  if (quantized.getTensorScale())
    text += " in two levels";
  if (quantized.getRule() == ScaleRule::RoundedHeadroom)
    text += " with headroom";
  if (quantized.comparesScales())
    text += " by 4 or 6";
  if (quantized.correctsScales())
    text += " by MS-EDEN";
  if (quantized.getHistory() > 0)
    text += " delayed";
  if (int64_t margin = quantized.getMargin())
    text += " margin " + std::to_string(margin);
  return quantized.getStochastic() ? text + " stochastic" : text;
}

std::string describeState(const StateFormats &formats) {
  std::string text = describeFormat(formats.ofSigned);
  if (formats.ofUnsigned != formats.ofSigned)
    text += " + " + describeFormat(formats.ofUnsigned);
  return text;
}

std::string describeState(Attribute format) {
  auto list = dyn_cast_if_present<ArrayAttr>(format);
  if (!list)
    return format ? describeFormat(format) : "f32";
  std::string text;
  for (Attribute one : list)
    text += (text.empty() ? "" : " + ") + describeFormat(one);
  return text;
}

} // namespace mlir::binade
