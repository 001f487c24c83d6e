//===- AccumulationSchema.cpp - Schema of modelled accumulators -----------===//

#include "PolicySchema.h"
#include "binade/IR/Accumulation.h"
#include "binade/IR/Formats.h"
#include "binade/Precision/StateFormats.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

namespace {
/// The keys of an accumulator. Those of Hopper are the defaults.
struct AccumulatorKeys {
  std::optional<int64_t> bits;
  int64_t step = 32, promote = 0;
};
} // namespace

/// Parses the keys of an accumulator.
static YamlSchema<AccumulatorKeys> accumulatorSchema() {
  return yamlMapping<AccumulatorKeys>(
      "an accumulator",
      {yamlKey("bits", "Bits of the significand of the accumulator, 8 to 24",
               &AccumulatorKeys::bits, yamlCount(0)),
       yamlKey("step",
               "Number of products that an instruction adds at a time, 1 to 32",
               &AccumulatorKeys::step, yamlCount(0)),
       yamlKey("promote",
               "Number of products after which the accumulator is added to a "
               "sum in f32, a multiple of step; 0 for never",
               &AccumulatorKeys::promote, yamlCount(0))},
      [](YamlReader &reader, Node &node, AccumulatorKeys &found) {
        if (!found.bits)
          return reader.error(node, "accumulator has no 'bits', the number of "
                                    "bits of its significand");
        std::string wrong = AccumulationAttr::explainViolation(
            *found.bits, found.step, found.promote);
        return wrong.empty() ? success() : reader.error(node, wrong);
      });
}

YamlKey<PolicySettings> mlir::binade::yamlAccumulate() {
  YamlSchema<AccumulatorKeys> keys = accumulatorSchema();
  YamlSchema<FloatType> format = yamlFormat(kSumFloats);
  llvm::json::Object schema{
      {"description",
       "Format of partial sums, or a model of the accumulator of FP8 units"},
      {"anyOf",
       llvm::json::Array{std::move(format.schema), std::move(keys.schema)}}};
  auto read = [keys = std::move(keys.read), format = std::move(format.read)](
                  YamlReader &reader, Node &node,
                  PolicySettings &settings) -> LogicalResult {
    if (!isa<llvm::yaml::MappingNode>(node))
      return format(reader, node, settings.accumulate);
    AccumulatorKeys found;
    if (failed(keys(reader, node, found)))
      return failure();
    settings.accumulation = {AccumulationAttr::get(reader.getContext(),
                                                   *found.bits, found.step,
                                                   found.promote),
                             reader.getLoc(node)};
    return success();
  };
  return {"accumulate", std::move(read), std::move(schema)};
}

/// Returns the formats to which a rule quantizes operands of some product.
static SmallVector<QuantizedAttr>
collectFormats(const ProductFormats &products) {
  SmallVector<QuantizedAttr> formats;
  auto add = [&](const OperandFormats &of) {
    for (QuantizedAttr format : {of.activation, of.weight, of.gradient})
      if (format)
        formats.push_back(format);
  };
  add(products.common);
  for (const std::optional<OperandFormats> &own : products.own)
    if (own)
      add(*own);
  return formats;
}

std::string mlir::binade::explainUnaccumulated(const PolicyRule &rule) {
  if (!rule.settings.accumulation)
    return {};
  std::string what = "an accumulator is a model of the FP8 units of a GPU; ";
  if (rule.match.ops != std::vector<std::string>{"matmul"})
    return what + "expected match: { op: matmul } in its rule";
  SmallVector<QuantizedAttr> formats = collectFormats(rule.settings.quantize);
  if (formats.empty())
    return what + "expected quantize: with FP8 formats in its rule";
  for (QuantizedAttr format : formats)
    if (!isMultipliedInFp8(format))
      return what +
             "expected operands quantized to f8E4M3FN or f8E5M2, "
             "without an expanded range, got " +
             describeFormat(format);
  return {};
}
