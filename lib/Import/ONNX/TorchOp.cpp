//===- TorchOp.cpp - The PyTorch op that a node comes from ----------------===//

#include "TorchOp.h"
#include "binade/ONNX/TorchExport.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

StringRef mlir::binade::importer::getTorchOp(const Node &node) {
  if (StringRef given = findMetadata(node.getProto(), "binade.function");
      !given.empty())
    return given;
  return getTorchCall(node.getProto()).op;
}

bool mlir::binade::importer::isDetached(const Node &node) {
  return node.hasInput(0) &&
         isa<RankedTensorType>(node.getInput(0).getType()) &&
         (!findMetadata(node.getProto(), "binade.detached").empty() ||
          getTorchOp(node).starts_with("detach"));
}

/// The padding index of an embedding, its third argument, which is missing or
/// -1 without padding. Warns of the fourth one, scale_grad_by_freq.
static std::optional<int64_t> readArgument(const Node &node) {
  SmallVector<StringRef> parts = getTorchCall(node.getProto()).split();
  if (parts.size() > 3 && parts[3] == "True")
    mlir::emitWarning(node.getErrorLoc())
        << "was exported with scale_grad_by_freq, which is not supported: the "
           "gradient of a row is not divided by its number of occurrences in a "
           "batch";
  int64_t padding;
  if (parts.size() < 3 || parts[2].getAsInteger(10, padding) || padding < 0)
    return std::nullopt;
  return padding;
}

FailureOr<std::optional<int64_t>>
mlir::binade::importer::getPaddingIndex(const Node &node) {
  std::optional<int64_t> padding;
  StringRef given = findMetadata(node.getProto(), "binade.padding_idx");
  int64_t rows = node.getRank(0) > 0 ? node.getShape(0).front() : 0;
  if (given.empty()) {
    if (getTorchOp(node) == "embedding.default")
      padding = readArgument(node);
    // The exporter's record may be outdated if the file was changed since.
    return padding && *padding < rows ? padding : std::nullopt;
  }
  int64_t index;
  if (given.getAsInteger(10, index) || index < -rows || index >= rows)
    return node.emitError()
           << "has metadata 'binade.padding_idx' = " << quote(given)
           << ", expected an index of one of the " << rows << " rows of "
           << node.getType(0);
  return std::optional(index);
}
