//===- CutSchema.cpp - Schema of `cut` and of cost files ------------------===//

#include "PolicySchema.h"
#include "binade/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

static constexpr double kUnlimited = std::numeric_limits<double>::infinity();
/// An exclusive lower bound: numbers above its negative are not negative.
static constexpr double kTiny = std::numeric_limits<double>::denorm_min();

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static YamlSchema<double> rate() { return yamlNumber(0, kUnlimited); }

static YamlSchema<FormatRates> ratesSchema() {
  auto check = [](YamlReader &reader, Node &node, FormatRates &rates) {
    bool isWhole = rates.format && rates.products > 0 && rates.elements > 0;
    return isWhole ? success()
                   : reader.error(
                         node, "expected 'format', 'products' and 'elements'");
  };
  return yamlMapping<FormatRates>(
      "the rates of a format",
      {yamlKey("format", "The format", &FormatRates::format, yamlFormat()),
       yamlKey("products", "Multiply-adds per second in a large matmul",
               &FormatRates::products, rate()),
       yamlKey("elements",
               "Elements per second that an elementwise kernel reads or writes",
               &FormatRates::elements, rate())},
      check);
}

/// Parses the name of a quantized format.
static YamlKey<QuantizedRates> quantizedFormatKey() {
  YamlSchema<QuantizedAttr> format = yamlTensorFormat();
  format.schema["description"] =
      "The format: a name that 'binade list formats' "
      "shows";
  auto read = [read = format.read](YamlReader &reader, Node &node,
                                   QuantizedRates &rates) -> LogicalResult {
    if (failed(read(reader, node, rates.format)))
      return failure();
    FailureOr<std::string> name = reader.readScalar(node, "a format");
    if (succeeded(name))
      rates.name = *name;
    return name;
  };
  return {"format", read, std::move(format.schema)};
}

static YamlSchema<QuantizedRates> quantizedRatesSchema() {
  auto check = [](YamlReader &reader, Node &node, QuantizedRates &rates) {
    bool isWhole = rates.format && rates.products > 0 && rates.quantize > 0 &&
                   rates.dequantize > 0;
    return isWhole ? success()
                   : reader.error(node, "expected 'format', 'products', "
                                        "'quantize' and 'dequantize'");
  };
  return yamlMapping<QuantizedRates>(
      "the rates of a quantized format",
      {quantizedFormatKey(),
       yamlKey("products",
               "Multiply-adds per second in a large matmul of quantized "
               "operands, without the time to dequantize them",
               &QuantizedRates::products, rate()),
       yamlKey("quantize",
               "Elements per second that are quantized, scales included",
               &QuantizedRates::quantize, rate()),
       yamlKey("dequantize",
               "Elements per second that are dequantized for a matmul",
               &QuantizedRates::dequantize, rate())},
      check);
}

const QuantizedRates *TargetCosts::find(QuantizedAttr format) const {
  auto rank = [&](const QuantizedRates &rates) {
    QuantizedAttr own = rates.format;
    bool sharesAlike = own.getGranularity() == format.getGranularity(),
         isAsLong = own.getExtent() == format.getExtent(),
         hasElements = own.getElement() == format.getElement();
    return std::tuple(own == format, sharesAlike, hasElements, isAsLong);
  };
  // Of equally similar formats, the slowest one.
  auto found = llvm::max_element(
      quantized, [&](const QuantizedRates &left, const QuantizedRates &right) {
        return std::tuple(rank(left), right.quantize) <
               std::tuple(rank(right), left.quantize);
      });
  return found == quantized.end() ? nullptr : &*found;
}

const YamlSchema<TargetCosts> &mlir::binade::getCostsFileSchema() {
  auto check = [](YamlReader &reader, Node &node, TargetCosts &costs) {
    bool isWhole =
        !costs.target.empty() && costs.launch > 0 && !costs.formats.empty();
    return isWhole ? success()
                   : reader.error(node,
                                  "expected 'target', 'launch' and 'formats'");
  };
  static const YamlSchema<TargetCosts> form = yamlMapping<TargetCosts>(
      "costs",
      {yamlKey("target", "What was measured", &TargetCosts::target,
               yamlString()),
       yamlKey("processor", "The processor that was measured",
               &TargetCosts::processor, yamlString()),
       yamlKey("chip",
               "GPU whose matmuls are predicted by their shapes, such as sm_90",
               &TargetCosts::chip, yamlString()),
       yamlKey("launch", "Seconds to start a kernel", &TargetCosts::launch,
               rate()),
       yamlKey("formats", "How fast the target is in each format",
               &TargetCosts::formats, yamlList(ratesSchema())),
       yamlKey("quantized",
               "How fast the target is with operands in each quantized format; "
               "without it, a cut does not count the time to quantize",
               &TargetCosts::quantized, yamlList(quantizedRatesSchema()))},
      check);
  return form;
}

TargetCosts TargetCosts::ofChip(StringRef chip, const GpuCosts &gpu,
                                MLIRContext *context) {
  const GpuRates &rates = gpu.getRates();
  TargetCosts costs;
  costs.target = rates.name;
  costs.chip = chip.str();
  costs.gpu = &gpu;
  costs.launch = rates.start;
  auto add = [&](FloatType format, const MatmulLaw &law) {
    // A multiply-add counts as two operations there.
    costs.formats.push_back(
        {format, law.rate / 2,
         8 * rates.memory / format.getIntOrFloatBitWidth()});
  };
  add(Float32Type::get(context), rates.f32);
  add(BFloat16Type::get(context), rates.bf16);
  add(Float16Type::get(context), rates.bf16);
  return costs;
}

std::string mlir::binade::writeCosts(const TargetCosts &costs) {
  std::string text = "# Seconds, and events per second.\n";
  if (costs.chip.empty())
    text = "# Measured by 'binade costs'. Seconds, and events per second.\n";
  text += llvm::formatv("target: {0}\n", costs.target);
  if (!costs.processor.empty())
    text += llvm::formatv("processor: {0}\n", costs.processor);
  if (!costs.chip.empty())
    text += llvm::formatv("chip: {0}\n", costs.chip);
  text += llvm::formatv("launch: {0:e3}\nformats:\n", costs.launch);
  for (const FormatRates &rates : costs.formats)
    text += llvm::formatv(
        "- {{ format: {0}, products: {1:e3}, elements: {2:e3} }\n",
        llvm::to_string(rates.format), rates.products, rates.elements);
  if (!costs.quantized.empty())
    text += "quantized:\n";
  for (const QuantizedRates &rates : costs.quantized)
    text += llvm::formatv("- {{ format: {0}, products: {1:e3}, quantize: "
                          "{2:e3}, dequantize: {3:e3} }\n",
                          rates.name, rates.products, rates.quantize,
                          rates.dequantize);
  return text;
}

//===----------------------------------------------------------------------===//
// The cut
//===----------------------------------------------------------------------===//

YamlSchema<CutSettings> mlir::binade::yamlCut() {
  auto rememberPlace = [](YamlReader &reader, Node &node, CutSettings &cut) {
    cut.location = reader.getLoc(node);
    if (cut.costs.empty())
      return reader.error(node, "cut has no 'costs'");
    return success();
  };
  YamlSchema<CutFormat> format = yamlMapping<CutFormat>(
      "a format to choose",
      {yamlKey("format", "The format", &CutFormat::format, yamlFormat()),
       yamlKey("penalty",
               "Seconds added to the cost of each infer op in the format, for "
               "its rounding errors",
               &CutFormat::penalty, yamlNumber(-kTiny, kUnlimited))},
      [](YamlReader &reader, Node &node, CutFormat &format) {
        return format.format ? success()
                             : reader.error(node, "expected a 'format'");
      });
  return yamlMapping<CutSettings>(
      "cut",
      {yamlKey("costs",
               "Target whose costs are minimized: a name that 'binade costs' "
               "lists, or a file of 'binade costs' next to the policy",
               &CutSettings::costs, yamlString()),
       yamlKey(
           "formats",
           "Formats to choose from, in addition to the wide one; by default "
           "the narrow one",
           &CutSettings::formats, yamlList(std::move(format))),
       yamlKey("memory",
               "Cost in seconds of a GiB that is saved for the backward pass",
               &CutSettings::memory, yamlNumber(-kTiny, kUnlimited))},
      rememberPlace);
}
