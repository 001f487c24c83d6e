//===- WriteOnnx.cpp - ONNX from binade ops -------------------------------===//

#include "OnnxWriter.h"
#include "binade/Export/ONNX/Write.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

/// With GELU; FP8 is a type of casts.
static constexpr int64_t kOperatorSet = 20;
static constexpr int64_t kFormatVersion = 10;
/// Name of the function that autodiff leaves.
static constexpr StringLiteral kGradientName = "gradient";

namespace {
class GraphWriter {
public:
  GraphWriter(func::FuncOp function, ::onnx::GraphProto &graph)
      : function(function), graph(graph), w(graph) {}

  LogicalResult run();

private:
  void nameResults();
  LogicalResult addArguments();
  LogicalResult addNodes();
  LogicalResult addOutputs();
  bool decompose(Operation *op);
  LogicalResult declare(::onnx::ValueInfoProto &info, const std::string &name,
                        Value value);
  std::string getName(std::optional<Port> port, StringRef otherwise) {
    return w.makeName(port && !port->name.empty() ? port->name : otherwise);
  }

  func::FuncOp function;
  ::onnx::GraphProto &graph;
  OnnxWriter w;
  std::vector<std::string> results;
  /// Arguments that have a result for their next value.
  llvm::DenseSet<std::pair<unsigned, StringRef>> replaced;
};
} // namespace

LogicalResult GraphWriter::declare(::onnx::ValueInfoProto &info,
                                   const std::string &name, Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  int32_t number = type ? getElementNumber(type.getElementType()) : 0;
  if (!number)
    return emitError(value.getLoc()) << "ONNX has no type " << value.getType();
  info.set_name(name);
  auto &tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(number);
  tensor.mutable_shape();
  for (int64_t size : type.getShape())
    tensor.mutable_shape()->add_dim()->set_dim_value(size);
  return success();
}

static std::pair<unsigned, StringRef> getKey(const Port &port) {
  return {llvm::to_underlying(port.role), port.name};
}

/// What the next step starts from, and what is set for each, can be given; it
/// is the initial value otherwise.
LogicalResult GraphWriter::addArguments() {
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    std::optional<Port> port = getArgument(function, index);
    std::string name = getName(port, "argument" + std::to_string(index));
    w.set(argument, name);
    Attribute value = function.getArgAttr(index, kInitAttr);
    bool isStored = isa_and_present<DenseElementsAttr, ExternalAttr>(value);
    bool isInput = !isStored || (port && (replaced.contains(getKey(*port)) ||
                                          port->role == Role::Hyper));
    if (isStored && failed(w.addTensor(argument.getLoc(), name, value)))
      return failure();
    if (isInput && failed(declare(*graph.add_input(), name, argument)))
      return failure();
  }
  return success();
}

/// Replaces `op` by what it is made of; false where nothing is known.
bool GraphWriter::decompose(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  if (!kernel)
    return false;
  ImplicitLocOpBuilder b(op->getLoc(), op);
  FailureOr<SmallVector<Value>> values = kernel.decompose(b);
  if (failed(values))
    return false;
  op->replaceAllUsesWith(*values);
  return true;
}

LogicalResult GraphWriter::addNodes() {
  llvm::MapVector<StringAttr, SmallVector<Operation *>> unknown;
  Block &body = function.front();
  for (auto it = body.begin(); &*it != body.getTerminator();) {
    Operation *op = &*it;
    w.setLoc(op->getLoc());
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      std::string name = w.makeName("constant");
      if (failed(w.addTensor(op->getLoc(), name, constant.getValue())))
        return failure();
      w.set(constant.getY(), name);
    } else if (failed(writeOp(w, op))) {
      Operation *before = op->getPrevNode();
      if (decompose(op)) {
        op->erase();
        it = before ? std::next(Block::iterator(before)) : body.begin();
        continue;
      }
      unknown[op->getName().getIdentifier()].push_back(op);
      for (Value result : op->getResults())
        w.set(result, "");
    }
    ++it;
  }
  if (unknown.empty())
    return success();
  InFlightDiagnostic error =
      mlir::emitError(function.getLoc(), "has ops without a form in ONNX: ");
  llvm::interleaveComma(unknown, error, [&](auto &entry) {
    error << entry.first.getValue() << " (" << entry.second.size() << ")";
  });
  for (auto &[name, ops] : unknown)
    error.attachNote() << describe(ops.front());
  return error;
}

/// A result that replaces an argument is its new value. Nodes are called after
/// what is left.
void GraphWriter::nameResults() {
  llvm::DenseSet<std::pair<unsigned, StringRef>> arguments;
  for (unsigned index = 0; index < function.getNumArguments(); ++index)
    if (std::optional<Port> port = getArgument(function, index))
      arguments.insert(getKey(*port));
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    std::optional<Port> port = getResult(function, index);
    std::string wanted = "result" + std::to_string(index);
    if (port && !port->name.empty()) {
      bool isNext = arguments.contains(getKey(*port));
      bool isGradient = port->role == Role::Gradient;
      StringRef prefix = isNext ? "new." : isGradient ? "grad." : "";
      wanted = (prefix + port->name).str();
      if (isNext)
        replaced.insert(getKey(*port));
    }
    results.push_back(w.makeName(wanted));
  }
}

LogicalResult GraphWriter::addOutputs() {
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    Value value = getResultValue(function, index);
    w.setLoc(value.getLoc());
    w.add("Identity", {w.get(value)});
    graph.mutable_node()->rbegin()->set_output(0, results[index]);
    if (failed(declare(*graph.add_output(), results[index], value)))
      return failure();
  }
  return success();
}

LogicalResult GraphWriter::run() {
  graph.set_name(function.getName().str());
  nameResults();
  return success(succeeded(addArguments()) && succeeded(addNodes()) &&
                 succeeded(addOutputs()));
}

static func::FuncOp findFunction(ModuleOp module) {
  for (StringRef name : {kStepName, kGradientName, kForwardName})
    if (auto function = module.lookupSymbol<func::FuncOp>(name))
      return function;
  auto functions = llvm::to_vector(
      llvm::make_filter_range(module.getOps<func::FuncOp>(),
                              [](func::FuncOp f) { return f.isPublic(); }));
  return functions.size() == 1 ? functions.front() : func::FuncOp();
}

FailureOr<std::string> mlir::binade::writeOnnx(ModuleOp module) {
  // Ops are taken apart on the way.
  OwningOpRef<ModuleOp> copy = module.clone();
  func::FuncOp function = findFunction(*copy);
  if (!function || function.isExternal())
    return mlir::emitError(module.getLoc(),
                           "expected a function '@step', '@gradient' or "
                           "'@forward', or one public function alone");
  ::onnx::ModelProto model;
  model.set_ir_version(kFormatVersion);
  model.set_producer_name("binade");
  model.add_opset_import()->set_version(kOperatorSet);
  if (failed(GraphWriter(function, *model.mutable_graph()).run()))
    return failure();
  std::string bytes;
  if (!model.SerializeToString(&bytes))
    return mlir::emitError(module.getLoc(), "is too large for an ONNX file");
  return bytes;
}
