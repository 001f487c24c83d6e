//===- RestoreScript.cpp - Parameters of TorchScript exports --------------===//

#include "RestoreScript.h"
#include "binade/ONNX/TorchExport.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::NodeProto;

namespace {
class ScriptRestorer {
public:
  explicit ScriptRestorer(ParameterEditor &editor) : editor(editor) {}

  void separateEqual();
  LogicalResult restoreWeights();

private:
  void findBiases();
  std::string getWeightName(const NodeProto &node) const;

  ParameterEditor &editor;
  /// For each value to which a vector is added, the name of the vector.
  llvm::StringMap<std::string> biases;
};
} // namespace

/// Replaces each Identity of an initializer by a copy.
void ScriptRestorer::separateEqual() {
  editor.eraseNodes([&](const NodeProto &node) {
    if (node.op_type() != "Identity" || node.input_size() != 1 ||
        node.output_size() != 1 || editor.find(node.output(0)))
      return false;
    std::optional<int> read = editor.find(node.input(0));
    if (read)
      editor.addCopy(*read, node.output(0));
    return read.has_value();
  });
}

void ScriptRestorer::findBiases() {
  for (int index = 0; index < editor.countNodes(); ++index) {
    const NodeProto &node = editor.getNode(index);
    if (node.op_type() != "Add" || node.input_size() != 2)
      continue;
    for (int input : {0, 1})
      if (std::optional<int> bias = editor.findRead({index, input});
          bias && editor.get(*bias).dims_size() == 1)
        biases[node.input(1 - input)] = node.input(input);
  }
}

/// Returns the name of a linear layer's weight: that of its bias, with "weight"
/// instead of "bias", or else the path of its module with ".weight".
std::string ScriptRestorer::getWeightName(const NodeProto &node) const {
  std::string bias = biases.lookup(node.output(0));
  if (StringRef prefix = bias; prefix.consume_back("bias"))
    return (prefix + "weight").str();
  std::optional<std::string> path = getModulePath(node);
  return path && !path->empty() ? *path + ".weight" : std::string();
}

LogicalResult ScriptRestorer::restoreWeights() {
  findBiases();
  llvm::StringSet<> isRestored;
  for (int index = 0, end = editor.countNodes(); index < end; ++index) {
    const NodeProto &node = editor.getNode(index);
    if (node.op_type() != "MatMul" || node.input_size() != 2)
      continue;
    std::optional<int> read = editor.findRead({index, 1});
    if (!read || editor.get(*read).dims_size() != 2 ||
        !StringRef(editor.get(*read).name()).starts_with("onnx::"))
      continue;
    // The exporter stores the transpose of a weight that is tied to the table
    // of an embedding next to the table.
    FailureOr<std::optional<int>> tied = editor.findTransposed(*read);
    if (failed(tied))
      return failure();
    std::string name = *tied ? editor.get(**tied).name() : getWeightName(node);
    // Another name that is taken belongs to another tensor of the module.
    bool isFree = *tied || !editor.find(name) || isRestored.contains(name);
    if (!name.empty() && isFree &&
        failed(editor.readTransposed({index, 1}, name)))
      return failure();
    isRestored.insert(name);
  }
  return success();
}

LogicalResult mlir::binade::restoreScriptParameters(ParameterEditor &editor) {
  ScriptRestorer restorer(editor);
  restorer.separateEqual();
  return restorer.restoreWeights();
}
