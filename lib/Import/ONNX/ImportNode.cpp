//===- ImportNode.cpp - One node becomes ops ------------------------------===//

#include "ImportNode.h"
#include "Evaluate.h"
#include "OpTable.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Whether `op` gives one number over and over where its operands are such:
/// then it takes no memory, whatever its shape.
static bool keepsSplat(Operation &op) {
  return !isa<ConcatOp, GatherOp, MatmulOp>(op);
}

/// Later ones multiply dimensions; those of inputs were checked.
static LogicalResult checkTypes(Node &node, Block::iterator begin) {
  Block::iterator end(node.b.getInsertionPoint());
  for (Operation &op : llvm::make_range(begin, end))
    for (Type type : op.getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        if (failed(getTensorType(node.getErrorLoc(), tensor.getShape(),
                                 tensor.getElementType())))
          return failure();
  return success();
}

/// Computes the ops from `begin` to the terminator, all of whose operands are
/// constants; stops where the evaluator or the budget ends.
static void evaluateOps(Graph &graph, Block::iterator begin,
                        MutableArrayRef<Value> outputs) {
  Block &block = graph.getFunction().front();
  for (Operation &op : llvm::make_early_inc_range(
           llvm::make_range(begin, std::prev(block.end())))) {
    if (isa<ConstantOp>(op) || op.getNumResults() != 1)
      continue;
    auto operands = llvm::map_to_vector(op.getOperands(), getElements);
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    bool isSplat = llvm::all_of(operands, [](DenseElementsAttr elements) {
      return elements && elements.isSplat();
    });
    if (!llvm::all_of(operands,
                      [](Attribute elements) { return !!elements; }) ||
        !graph.spend(isSplat && keepsSplat(op) ? 1 : type.getNumElements()))
      return;
    DenseElementsAttr value = evaluate(&op, operands);
    if (!value)
      return;
    OpBuilder b(&op);
    Value constant = ConstantOp::create(b, op.getLoc(), value);
    op.getResult(0).replaceAllUsesWith(constant);
    llvm::replace(outputs, Value(op.getResult(0)), constant);
    op.erase();
  }
}

LogicalResult mlir::binade::importer::importNode(Graph &graph, unsigned index) {
  Block &block = graph.getFunction().front();
  const auto &proto = graph.getModel().getGraph().node(index);
  const OpRow &row =
      *findOp(proto.domain(), proto.op_type(), graph.getModel().getOpset());
  Node node(graph, index);
  if (failed(node.checkUnique()))
    return failure();
  for (unsigned input = 0; input < std::max(row.minInputs, node.getNumInputs());
       ++input)
    if (input < row.minInputs ? !node.hasInput(input) : input >= row.maxInputs)
      return node.emitError()
             << "expected " << row.minInputs
             << (row.maxInputs == row.minInputs ? "" : " or more")
             << " inputs, got " << node.getNumInputs();
  SmallVector<Value> inputs = node.getInputs();
  for (unsigned input = row.takesSequence; input < inputs.size(); ++input)
    if (node.hasInput(input) && !inputs[input])
      return node.emitError() << "expected " << quote(node.getInputName(input))
                              << " to be a tensor, got a sequence";
  bool isConstant = llvm::all_of(
      inputs, [](Value input) { return !input || getElements(input); });
  Operation *last = block.getTerminator()->getPrevNode();
  if (failed(row.import(node)) || failed(node.checkAttributes()))
    return failure();
  auto begin = last ? std::next(Block::iterator(last)) : block.begin();
  if (failed(checkTypes(node, begin)))
    return failure();
  if (isConstant)
    evaluateOps(graph, begin, node.getOutputs());
  for (auto [output, value] : llvm::enumerate(node.getOutputs())) {
    if (!node.hasOutput(output))
      continue;
    if (!value && graph.isUsed(proto.output(output)) &&
        !graph.lookupSequence(proto.output(output)))
      return node.emitError() << "has no output " << output;
    if (value)
      graph.define(proto.output(output), value);
  }
  return success();
}
