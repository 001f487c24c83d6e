//===- PartNodes.cpp - Import of supported nodes --------------------------===//

#include "ImportNode.h"
#include "OpTable.h"
#include "PartImporter.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/ONNX/Order.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

bool PartImporter::isAssumed(const ::onnx::NodeProto &node) const {
  bool isFound = false;
  forEachRead(node, [&](const std::string &name) {
    isFound |= assumed.contains(name);
  });
  return isFound;
}

/// Whether the node is invalid, as opposed to unsupported.
bool PartImporter::isWrong(DiagnosticCollector &errors, Graph &graph,
                           const ::onnx::NodeProto &node) const {
  if (!isStandardDomain(node.domain()))
    return false;
  return violatesTypes(graph, node) ||
         (errors.isAboutFile() && !errors.isUnsupported() && !isAssumed(node));
}

/// Imports a node. Returns the reason if it cannot be imported, and otherwise
/// nothing.
std::optional<std::string>
PartImporter::importNode(Graph &graph, const Level &level, unsigned index) {
  const auto &node = level.graph.node(index);
  if (!findOp(node.domain(), node.op_type(), model.getOpset()))
    return "no such op is known";
  for (const std::string &name : node.input())
    if (!name.empty() && !graph.find(name))
      return "it reads " + quote(name) + ", whose type is not known";
  DiagnosticCollector errors(model.getContext());
  Block &block = function.front();
  Operation *last = block.getTerminator()->getPrevNode();
  if (succeeded(importer::importNode(graph, node, index))) {
    findWide(graph, node, last);
    return std::nullopt;
  }
  while (block.getTerminator()->getPrevNode() != last)
    block.getTerminator()->getPrevNode()->erase();
  if (isWrong(errors, graph, node)) {
    wrong = errors.takeDiagnostics();
    for (Diagnostic &diagnostic : wrong)
      diagnostic.getMetadata().clear();
    return "is wrong";
  }
  return errors.takeError("", "it cannot be imported").message;
}

void PartImporter::findRanks(Graph &graph, const ::onnx::NodeProto &node) {
  for (const std::string &name : node.input()) {
    Value value = name.empty() ? Value() : graph.lookup(name);
    auto type = value ? dyn_cast<RankedTensorType>(value.getType())
                      : RankedTensorType();
    getFound(node).ranks.push_back(type ? type.getRank() : -1);
  }
}

/// Whether `ops` read `value` in f32 or as integers for any decision, also
/// through ops that move its elements.
static bool isReadWide(Value value,
                       const llvm::SmallPtrSetImpl<Operation *> &ops) {
  SmallVector<Value> values{value};
  while (!values.empty())
    // The latest uses come first.
    for (OpOperand &use : values.pop_back_val().getUses()) {
      Operation *op = use.getOwner();
      if (!ops.contains(op))
        break;
      auto decided = dyn_cast<PrecisionOpInterface>(op);
      bool isChosen =
          decided && decided.getOperandFormat(use.getOperandNumber()) ==
                         FormatRole::Chosen;
      if (!isChosen || op->getNumResults() == 0 ||
          !isa<FloatType>(getElementTypeOrSelf(op->getResult(0))))
        continue;
      bool isMoved = getMoved(op->getResult(0)) == use.get();
      if (!isMoved || op->getResult(0).use_empty())
        return false;
      values.push_back(op->getResult(0));
    }
  return true;
}

/// Finds the inputs that the ops after `last` read in f32 or as integers
/// whatever the decisions are.
void PartImporter::findWide(Graph &graph, const ::onnx::NodeProto &node,
                            Operation *last) {
  llvm::SmallPtrSet<Operation *, 16> ops;
  Operation *terminator = function.front().getTerminator();
  for (Operation *op = terminator->getPrevNode(); op && op != last;
       op = op->getPrevNode())
    ops.insert(op);
  for (const std::string &name : node.input()) {
    Value value = name.empty() ? Value() : graph.lookup(name);
    getFound(node).isWide.push_back(value && isReadWide(value, ops));
  }
}

void PartImporter::findPassedOn(Graph &graph, const ::onnx::NodeProto &node) {
  Value made = node.output().empty() ? Value() : graph.lookup(node.output(0));
  PartialImport::Node &found = getFound(node);
  for (const std::string &name : node.input())
    if (made && !name.empty() && graph.lookup(name) == made)
      found.same = name;
  if (!made || node.input().empty() || node.input(0).empty())
    return;
  Value given = graph.lookup(node.input(0)), moved = made;
  while (moved && moved != given && !moved.getDefiningOp<CastOp>())
    moved = getMoved(moved);
  found.isMovement = moved && moved == given && moved != made;
  found.movesAll =
      found.isMovement && getNumElements(given) == getNumElements(made);
}

void PartImporter::keep(const Graph &graph, StringRef name) {
  const NamedValue *value = graph.find(name);
  if (value && value->tensor)
    read.insert(value->tensor);
  if (value && value->sequence)
    read.insert(value->sequence->begin(), value->sequence->end());
}

/// Keeps the inputs of the node alive and defines placeholders for its outputs.
/// `made` has the types of outputs that follow from its subgraphs.
void PartImporter::leaveOut(Graph &graph, const Level &level,
                            const ::onnx::NodeProto &node,
                            ArrayRef<Known> made) {
  forEachRead(node, [&](const std::string &name) { keep(graph, name); });
  for (auto [index, name] : llvm::enumerate(node.output())) {
    if (name.empty())
      continue;
    Known type = index < made.size() ? made[index] : Known();
    const auto *known = type.tensor ? nullptr : level.find(name);
    if (known)
      type.tensor = getType(*known);
    if (!known || !hasLengths(*known))
      assumed.insert(name);
    addStandIn(graph, name, type);
  }
}

void PartImporter::importNodes(Graph &graph, const Level &level) {
  if (&level != &levels.front())
    for (const auto &input : level.graph.input())
      assumed.insert(input.name()); // May change with each iteration.
  for (unsigned index : level.order) {
    if (!wrong.empty())
      return;
    const auto &node = level.graph.node(index);
    findRanks(graph, node);
    if (hasSubgraphs(node)) {
      leaveOut(graph, level, node, importGraphs(graph, level, index));
    } else if (auto reason = importNode(graph, level, index)) {
      getFound(node).reason = std::move(*reason);
      leaveOut(graph, level, node, {});
    }
    if (isAssumed(node))
      for (const std::string &name : node.output())
        assumed.insert(name);
    findPassedOn(graph, node);
  }
}
