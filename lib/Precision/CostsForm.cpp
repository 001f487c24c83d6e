//===- CostsForm.cpp - What may stand in a file of costs ------------------===//

#include "PolicyForm.h"
#include "binade/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

static YamlForm<double> rate() {
  return yamlNumber(0, std::numeric_limits<double>::infinity());
}

static YamlForm<FormatRates> ratesForm() {
  auto check = [](YamlReader &reader, Node &node, FormatRates &rates) {
    bool isWhole = rates.format && rates.products > 0 && rates.elements > 0;
    return isWhole ? success()
                   : reader.error(
                         node, "expected 'format', 'products' and 'elements'");
  };
  return yamlMapping<FormatRates>(
      "the rates of a format",
      {yamlKey("format", "The format", &FormatRates::format, yamlFormat()),
       yamlKey("products", "Products a second that a large matrix product sums",
               &FormatRates::products, rate()),
       yamlKey("elements",
               "Elements a second that an elementwise kernel reads or writes",
               &FormatRates::elements, rate())},
      check);
}

const YamlForm<TargetCosts> &mlir::binade::getCostsForm() {
  auto check = [](YamlReader &reader, Node &node, TargetCosts &costs) {
    bool isWhole =
        !costs.target.empty() && costs.launch > 0 && !costs.formats.empty();
    return isWhole ? success()
                   : reader.error(node,
                                  "expected 'target', 'launch' and 'formats'");
  };
  static const YamlForm<TargetCosts> form = yamlMapping<TargetCosts>(
      "costs",
      {yamlKey("target", "What was measured", &TargetCosts::target,
               yamlString()),
       yamlKey("launch", "Seconds to start a kernel", &TargetCosts::launch,
               rate()),
       yamlKey("formats", "How fast the target is in each format",
               &TargetCosts::formats, yamlList(ratesForm()))},
      check);
  return form;
}

std::string mlir::binade::writeCosts(const TargetCosts &costs) {
  std::string text =
      llvm::formatv("# Measured by 'binade costs'. Seconds, and events a "
                    "second.\ntarget: {0}\nlaunch: {1:e3}\nformats:\n",
                    costs.target, costs.launch);
  for (const FormatRates &rates : costs.formats)
    text += llvm::formatv(
        "- {{ format: {0}, products: {1:e3}, elements: {2:e3} }\n",
        llvm::to_string(rates.format), rates.products, rates.elements);
  return text;
}
