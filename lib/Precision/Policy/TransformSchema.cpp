//===- TransformSchema.cpp - Schema of transforms of operands -------------===//

#include "PolicySchema.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/HadamardOp.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

namespace {
/// The keys of a transform.
struct TransformKeys {
  int64_t hadamard = 0;
  HadamardSigns signs = HadamardSigns::Fixed;
};
} // namespace

/// Parses the number of elements of a group.
static YamlSchema<int64_t> sizeSchema() {
  auto read = [](YamlReader &reader, Node &node,
                 int64_t &size) -> LogicalResult {
    constexpr StringLiteral kExpected = "4, 8, 16, 32, 64 or 128 elements";
    FailureOr<std::string> text = reader.readScalar(node, kExpected);
    if (failed(text))
      return failure();
    if (StringRef(*text).getAsInteger(10, size) ||
        !llvm::is_contained(kHadamardSizes, size))
      return reader.error(node, "expected " + kExpected + ", got '" +
                                    Twine(*text) + "'");
    return success();
  };
  return {read,
          llvm::json::Object{{"enum", llvm::json::Array(kHadamardSizes)}}};
}

YamlSchema<ProductTransform> mlir::binade::yamlTransform() {
  YamlSchema<TransformKeys> keys = yamlMapping<TransformKeys>(
      "a transform",
      {yamlKey("hadamard",
               "Number of elements along the summed axis that the Hadamard "
               "transform combines",
               &TransformKeys::hadamard, sizeSchema()),
       yamlKey(
           "signs",
           "Signs by which elements are multiplied before the transform: one "
           "vector for all steps, one that is drawn in each step, or none",
           &TransformKeys::signs,
           yamlEnum(stringifyHadamardSigns, getMaxEnumValForHadamardSigns()))},
      [](YamlReader &reader, Node &node, TransformKeys &found) {
        return found.hadamard ? success()
                              : reader.error(node, "transform has no "
                                                   "'hadamard', the number of "
                                                   "elements of a group");
      });
  auto read = [read = std::move(keys.read)](
                  YamlReader &reader, Node &node,
                  ProductTransform &transform) -> LogicalResult {
    TransformKeys found;
    if (failed(read(reader, node, found)))
      return failure();
    transform.transform =
        TransformAttr::get(reader.getContext(), found.hadamard, found.signs);
    transform.location = reader.getLoc(node);
    return success();
  };
  return {std::move(read), std::move(keys.schema)};
}
