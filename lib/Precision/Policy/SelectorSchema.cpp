//===- SelectorSchema.cpp - Schema of what a rule matches -----------------===//

#include "PolicySchema.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

static YamlSchema<NameGlob> globSchema() {
  auto read = [](YamlReader &reader, Node &node,
                 NameGlob &glob) -> LogicalResult {
    FailureOr<std::string> text = reader.readScalar(node, "a name");
    if (failed(text))
      return failure();
    llvm::Expected<NameGlob> built = buildGlob(*text, reader.getContext());
    if (!built)
      return reader.error(node, llvm::toString(built.takeError()));
    glob = std::move(*built);
    return success();
  };
  return {read, llvm::json::Object{{"type", "string"}}};
}

/// Returns the names of the ops whose formats a policy may choose, without the
/// dialect prefix.
static std::vector<std::string> getOpNames(MLIRContext *context) {
  std::vector<std::string> names;
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.hasInterface<PrecisionOpInterface>() ||
        name.getStringRef() == OptimizerUpdateOp::getOperationName())
      names.push_back(name.stripDialect().str());
  return names;
}

static YamlSchema<std::string> opSchema() {
  auto read = [](YamlReader &reader, Node &node,
                 std::string &op) -> LogicalResult {
    FailureOr<std::string> word = reader.readScalar(node, "the name of an op");
    if (failed(word))
      return failure();
    std::vector<std::string> names = getOpNames(reader.getContext());
    if (!llvm::is_contained(names, *word))
      return reader.error(node, "no op whose format can be chosen is called '" +
                                    *word + "'" +
                                    ::binade::suggest(*word, names));
    op = std::move(*word);
    return success();
  };
  return {read, llvm::json::Object{{"type", "string"}}};
}

static YamlSchema<CountOrShare> blockCountSchema() {
  constexpr int64_t kMaxBlocks = 100;
  return yamlCountOrShare("blocks", 0, kMaxBlocks);
}

static YamlSchema<BlockEnds> blocksSchema() {
  return yamlMapping<BlockEnds>(
      "blocks",
      {yamlKey("first", "Number or share of the blocks at the beginning",
               &BlockEnds::first, blockCountSchema()),
       yamlKey("last", "Number or share of the blocks at the end",
               &BlockEnds::last, blockCountSchema())},
      [](YamlReader &reader, Node &node, BlockEnds &ends) -> LogicalResult {
        if (ends == BlockEnds())
          return reader.error(node, "expected 'first' or 'last' with at least "
                                    "one block");
        return success();
      });
}

YamlSchema<PolicySelector> mlir::binade::yamlSelector() {
  return yamlMapping<PolicySelector>(
      "match",
      {yamlKey("op", "Name of an op, or a list of names", &PolicySelector::ops,
               yamlOneOrMore(opSchema())),
       yamlKey("name", "Name of a node; * matches any characters",
               &PolicySelector::name, globSchema()),
       yamlKey("phase", "Part of the training step", &PolicySelector::phase,
               yamlEnum(stringifyPhase, getMaxEnumValForPhase())),
       yamlKey("role", "Role of a tensor that the op reads or writes",
               &PolicySelector::role,
               yamlEnum(stringifyTensorRole, getMaxEnumValForTensorRole())),
       yamlKey(
           "layer", "The first or the last layer with a weight",
           &PolicySelector::layer,
           yamlEnum(stringifyLayerPosition, getMaxEnumValForLayerPosition())),
       yamlKey("blocks",
               "Blocks at the ends of the chain of repeated blocks of layers",
               &PolicySelector::blocks, blocksSchema())});
}
