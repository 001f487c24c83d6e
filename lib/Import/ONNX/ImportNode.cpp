//===- ImportNode.cpp - Import of one node --------------------------------===//

#include "ImportNode.h"
#include "Evaluate.h"
#include "OpTable.h"
#include "binade/ONNX/Order.h"
#include "binade/ONNX/Producer.h"
#include "binade/ONNX/Schemas.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

LogicalResult mlir::binade::importer::checkOps(const Model &model,
                                               const ::onnx::GraphProto &graph,
                                               ArrayRef<unsigned> order) {
  llvm::MapVector<StringAttr, SmallVector<unsigned>> unknown;
  for (unsigned index : order) {
    const auto &node = graph.node(index);
    if (!findOp(node.domain(), node.op_type(), model.getOpset())) {
      std::string name = node.op_type();
      if (!node.domain().empty())
        name = node.domain() + "." + name;
      unknown[StringAttr::get(model.getContext(), name)].push_back(index);
    }
  }
  if (unknown.empty())
    return success();
  InFlightDiagnostic error = model.emitUnsupported();
  error << "has ops that cannot be imported: ";
  llvm::interleaveComma(unknown, error, [&](auto &entry) {
    error << ::binade::printable(entry.first.strref(), 80) << " ("
          << entry.second.size() << ")";
  });
  constexpr size_t kShown = 4;
  for (auto &[op, nodes] : unknown) {
    Diagnostic &note = error.attachNote();
    note << ::binade::printable(op.strref(), 80) << " of opset "
         << model.getOpset() << ", " << nodes.size()
         << (nodes.size() == 1 ? " node: " : " nodes: ");
    llvm::interleaveComma(
        ArrayRef(nodes).take_front(kShown), note, [&](unsigned index) {
          note << quote(getNodeName(graph.node(index), index));
        });
    if (nodes.size() > kShown)
      note << ", ...";
  }
  if (getProducer(model.getProto()) == Producer::TF2ONNX)
    error.attachNote() << "tf2onnx leaves ops of TensorFlow that it cannot "
                          "convert in the file; binade.keras.export(model, "
                          "path) converts more of them";
  return error;
}

/// Whether the result of `op` is a splat if its operands are splats. The result
/// then takes no memory, whatever its shape.
static bool keepsSplat(Operation &op) {
  return !isa<ConcatOp, GatherOp, MatmulOp>(op);
}

/// Checks the types of the ops that a node was imported as; those of its inputs
/// were checked before.
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

/// Folds the ops from `begin` to the terminator, whose operands are constants.
/// Stops at an op that the evaluator does not support or whose result exceeds
/// the limit.
static void evaluateOps(Graph &graph, Block::iterator begin,
                        MutableArrayRef<NamedValue> outputs) {
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
    for (NamedValue &output : outputs) {
      if (output.tensor == op.getResult(0))
        output.tensor = constant;
      if (output.sequence)
        llvm::replace(*output.sequence, Value(op.getResult(0)), constant);
    }
    op.erase();
  }
}

static LogicalResult checkRequired(Node &node, const OpRow &row) {
  for (StringRef name : llvm::split(row.required, ' '))
    if (!name.empty() && !node.hasAttribute(name))
      return node.emitError() << "attribute " << quote(name) << " is missing";
  return success();
}

LogicalResult mlir::binade::importer::importNode(Graph &graph,
                                                 const ::onnx::NodeProto &proto,
                                                 unsigned index) {
  Block &block = graph.getFunction().front();
  const OpRow &row =
      *findOp(proto.domain(), proto.op_type(), graph.getModel().getOpset());
  Node node(graph, proto, index);
  if (failed(checkRequired(node, row)))
    return failure();
  for (unsigned input = 0; input < std::max(row.minInputs, node.getNumInputs());
       ++input)
    if (row.needsInput(input) ? !node.hasInput(input) : input >= row.maxInputs)
      return node.emitError()
             << "expected " << row.minInputs
             << (row.maxInputs == row.minInputs ? "" : " or more")
             << " inputs, got " << describeInputs(proto);
  SmallVector<Value> inputs = node.getInputs();
  for (unsigned input = 0; input < inputs.size(); ++input)
    if (!row.takesSequence(input) && node.hasInput(input) && !inputs[input])
      return node.emitError()
             << "expected " << quote(node.getInputName(input))
             << " to be a tensor, got " << node.getNamedInput(input).describe();
  // The nodes of subgraphs were folded one by one.
  bool isConstant =
      !hasSubgraphs(proto) && llvm::all_of(inputs, [](Value input) {
        return !input || getElements(input);
      });
  Operation *last = block.getTerminator()->getPrevNode();
  if (failed((*row.import)(node)) || failed(node.checkAttributes()))
    return failure();
  auto begin = last ? std::next(Block::iterator(last)) : block.begin();
  if (failed(checkTypes(node, begin)))
    return failure();
  if (isConstant)
    evaluateOps(graph, begin, node.getOutputs());
  for (auto [output, value] : llvm::enumerate(node.getOutputs())) {
    if (!node.hasOutput(output))
      continue;
    if (!value.isNothing())
      graph.define(proto.output(output), std::move(value));
    else if (graph.isUsed(proto.output(output)))
      return node.emitError() << "has no output " << output;
  }
  return success();
}

/// Returns the TensorProto::DataType of `value`; 0 if it is not a tensor of
/// such a type.
static int32_t getTypeNumber(Value value) {
  auto type =
      value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  for (int32_t number = 1; type && number <= ::onnx::TensorProto::DataType_MAX;
       ++number)
    if (getElementType(type.getContext(), number) == type.getElementType())
      return number;
  return 0;
}

bool mlir::binade::importer::violatesTypes(Graph &graph,
                                           const ::onnx::NodeProto &proto) {
  const OpSchema *schema = findSchema(proto.domain(), proto.op_type(),
                                      {{"", graph.getModel().getOpset()}});
  if (!schema)
    return false;
  llvm::SmallDenseMap<char, int32_t> chosen;
  for (auto [index, name] : llvm::enumerate(proto.input())) {
    int32_t type = name.empty() ? 0 : getTypeNumber(graph.lookup(name));
    std::optional<char> letter = schema->getInput(index);
    if (!type || !letter)
      continue;
    if (!schema->allows(*letter, type) ||
        chosen.try_emplace(*letter, type).first->second != type)
      return true;
  }
  return false;
}
