//===- PaddingRows.cpp - Detection of padding rows ------------------------===//
//
// In PyTorch, the padding row of an embedding starts as 0 and gets no gradient.
// ONNX cannot express that. If the file has no metadata about it either, a
// single row of zeros is the only sign of it.
//
//===----------------------------------------------------------------------===//

#include "DefineInitializers.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using ::onnx::NodeProto;

/// Tables with more bytes are not searched.
static constexpr uint64_t kMaxTableBytes = uint64_t(256) << 20;

static bool hasPaddingMetadata(const NodeProto &node) {
  return llvm::any_of(node.metadata_props(), [](const auto &entry) {
    // PyTorch's record has the index, if there is padding.
    return entry.key() == "binade.padding_idx" ||
           entry.key() == "pkg.torch.onnx.fx_node";
  });
}

/// Returns the row whose bytes are all 0, if there is exactly one.
static std::optional<int64_t> findZeroRow(ArrayRef<char> bytes, int64_t rows) {
  std::optional<int64_t> found;
  size_t length = bytes.size() / rows;
  for (int64_t row = 0; row < rows; ++row) {
    ArrayRef<char> own = bytes.slice(row * length, length);
    if (!llvm::all_of(own, [](char byte) { return byte == 0; }))
      continue;
    if (found)
      return std::nullopt;
    found = row;
  }
  return found;
}

void mlir::binade::importer::remarkOnPadding(const Initializers &initializers,
                                             const Model &model,
                                             const Metadata &metadata,
                                             ArrayRef<unsigned> order,
                                             TensorReader &reader) {
  llvm::StringSet<> lookedUp;
  for (unsigned index : order) {
    const NodeProto &node = model.getGraph().node(index);
    bool isAlongRows =
        llvm::none_of(node.attribute(), [](const auto &attribute) {
          return attribute.name() == "axis" && attribute.i() != 0;
        });
    if (node.op_type() == "Gather" && node.input_size() == 2 && isAlongRows &&
        !hasPaddingMetadata(node))
      lookedUp.insert(node.input(0));
  }
  // binade.export writes the metadata for every padding row.
  if (metadata.trainable)
    return;
  for (const Initializers::Tensor &tensor : initializers.getTensors()) {
    bool isTable =
        tensor.isTrained && tensor.proto && lookedUp.contains(tensor.name) &&
        tensor.type.getRank() == 2 && tensor.type.getDimSize(0) > 2 &&
        tensor.type.getDimSize(1) > 1 &&
        getBytes(tensor.type) <= kMaxTableBytes;
    if (!isTable)
      continue;
    auto bytes =
        reader.readBytes(initializers.getLoc(tensor.name), *tensor.proto);
    if (failed(bytes))
      return; // The import of the values reports the error.
    std::optional<int64_t> row = findZeroRow(*bytes, tensor.type.getDimSize(0));
    if (row)
      mlir::emitRemark(initializers.getLoc(tensor.name))
          << "has zeros in row " << *row
          << " only, as with padding_idx in PyTorch, but this row is trained "
             "too; set metadata 'binade.padding_idx' of the Gather node to \""
          << *row << "\" to leave it unchanged";
  }
}
