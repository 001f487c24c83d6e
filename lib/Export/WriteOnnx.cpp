//===- WriteOnnx.cpp - Export of modules as ONNX --------------------------===//

#include "binade/Export/WriteOnnx.h"
#include "OnnxWriter.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include <set>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

/// The first operator set with Gelu; Cast supports FP8.
static constexpr int64_t kOperatorSet = 20;
/// The first operator set with BitCast.
static constexpr int64_t kOperatorSetOfBits = 26;
static constexpr int64_t kFormatVersion = 10;
/// The name of the function after autodiff.
static constexpr StringLiteral kGradientName = "gradient";

namespace {
/// The role and name of an argument or result; either may be missing.
struct PortName {
  explicit PortName(DictionaryAttr attributes) {
    if (!attributes)
      return;
    if (auto text = attributes.getAs<StringAttr>(kNameAttr))
      name = text.getValue();
    if (auto attribute = attributes.getAs<RoleAttr>(kRoleAttr))
      role = attribute.getValue();
  }
  bool operator<(const PortName &other) const {
    return std::pair(role, name) < std::pair(other.role, other.name);
  }

  std::optional<Role> role;
  StringRef name;
};

class GraphWriter {
public:
  GraphWriter(func::FuncOp function, ::onnx::GraphProto &graph)
      : function(function), graph(graph), w(graph, function.getContext()) {}

  LogicalResult run();
  int64_t getOperatorSet() const {
    return w.hasBitcasts() ? kOperatorSetOfBits : kOperatorSet;
  }

private:
  void nameResults();
  LogicalResult addArguments();
  LogicalResult addNodes();
  LogicalResult addOutputs();
  bool decompose(Operation *op);
  LogicalResult declare(::onnx::ValueInfoProto &info, const std::string &name,
                        Value value);

  func::FuncOp function;
  ::onnx::GraphProto &graph;
  OnnxWriter w;
  std::vector<std::string> results;
  /// Arguments that a result replaces in the next step.
  std::set<PortName> replaced;
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

/// Returns the initial value of an argument of element type `type` that can be
/// stored in the file; null otherwise. An external tensor in another format
/// cannot: the argument becomes an input without a value.
static Attribute getInitial(Attribute init, Type type) {
  if (!isa_and_present<DenseElementsAttr, ExternalAttr>(init))
    return {};
  if (getElementTypeOrSelf(cast<TypedAttr>(init).getType()) == type)
    return init;
  auto numbers = dyn_cast<DenseFPElementsAttr>(init);
  auto format = dyn_cast<FloatType>(type);
  return numbers && format ? roundElements(numbers, format)
                           : DenseElementsAttr();
}

/// Adds inputs and initializers. Arguments that a step replaces and
/// hyper-parameters are inputs whose initial value is the default.
LogicalResult GraphWriter::addArguments() {
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    PortName port(function.getArgAttrDict(index));
    std::string name =
        w.makeName(port.name.empty() ? "argument" + std::to_string(index)
                                     : port.name.str());
    w.set(argument, name);
    Attribute value = getInitial(function.getArgAttr(index, kInitAttr),
                                 getElementTypeOrSelf(argument));
    bool isInput =
        !value || replaced.contains(port) || port.role == Role::Hyper;
    if (value && failed(w.addTensor(argument.getLoc(), name, value)))
      return failure();
    if (isInput && failed(declare(*graph.add_input(), name, argument)))
      return failure();
  }
  return success();
}

/// Clones a body of a tile for the pieces number `index`, or for the remainder,
/// and appends what it yields to `pieces`, a list for each result.
static void clonePieces(ImplicitLocOpBuilder &b, TileOp tile, Block &body,
                        int64_t index,
                        MutableArrayRef<SmallVector<Value>> pieces) {
  bool isRemainder = &body != &tile.getBody().front();
  IRMapping mapping;
  for (auto [number, argument] : llvm::enumerate(body.getArguments())) {
    Value whole = tile.getOperands()[number];
    if (number < tile.getSlices()) {
      auto type = cast<RankedTensorType>(argument.getType());
      SmallVector<int64_t> starts(type.getRank(), 0), steps(type.getRank(), 1);
      starts.front() = isRemainder
                           ? getShape(whole).front() - type.getDimSize(0)
                           : index * type.getDimSize(0);
      whole = SliceOp::create(b, type, whole, starts, steps);
    }
    mapping.map(argument, whole);
  }
  for (Operation &op : body.without_terminator())
    b.clone(op, mapping);
  for (auto [values, value] :
       llvm::zip(pieces, body.getTerminator()->getOperands()))
    values.push_back(mapping.lookupOrDefault(value));
}

/// Unrolls a tile loop.
static SmallVector<Value> unroll(ImplicitLocOpBuilder &b, TileOp tile) {
  SmallVector<SmallVector<Value>> pieces(tile->getNumResults());
  for (int64_t index = 0; index < static_cast<int64_t>(tile.getCount());
       ++index)
    clonePieces(b, tile, tile.getBody().front(), index, pieces);
  if (!tile.getRemainderBody().empty())
    clonePieces(b, tile, tile.getRemainderBody().front(), 0, pieces);
  SmallVector<Value> results;
  for (auto [number, values] : llvm::enumerate(pieces)) {
    if (number < tile.getJoins()) {
      results.push_back(ConcatOp::create(b, tile.getResult(number).getType(),
                                         values, /*axis=*/0));
      continue;
    }
    Value sum = values.front();
    for (Value value : ArrayRef(values).drop_front())
      sum = AddOp::create(b, sum, value);
    results.push_back(sum);
  }
  return results;
}

/// Writes a constant. A large one whose elements are equal is expanded from one
/// element when the file runs, so that files stay small.
static LogicalResult writeConstant(OnnxWriter &w, ConstantOp constant) {
  constexpr int64_t kMinExpanded = 64;
  auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
  Type element = getElementTypeOrSelf(constant.getY());
  // Types for which runtimes have Expand.
  bool isExpandable = element.isF32() || element.isF64() ||
                      element.isInteger(64) || element.isInteger(1);
  if (splat && isExpandable && splat.getNumElements() >= kMinExpanded) {
    const std::string &value =
        w.addTable(splat.resizeSplat(RankedTensorType::get({}, element)));
    w.set(constant.getY(),
          w.add("Expand", {value, w.addInts(splat.getType().getShape())}));
    return success();
  }
  std::string name = w.makeName("constant");
  if (failed(w.addTensor(constant.getLoc(), name, constant.getValue())))
    return failure();
  w.set(constant.getY(), name);
  return success();
}

/// Replaces `op` by its decomposition; returns false if it has none.
bool GraphWriter::decompose(Operation *op) {
  if (auto tile = dyn_cast<TileOp>(op)) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    op->replaceAllUsesWith(unroll(b, tile));
    return true;
  }
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
      if (failed(writeConstant(w, constant)))
        return failure();
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
  InFlightDiagnostic error = mlir::emitError(
      function.getLoc(), "has ops that cannot be written as ONNX: ");
  llvm::interleaveComma(unknown, error, [&](auto &entry) {
    error << entry.first.getValue() << " (" << entry.second.size() << ")";
  });
  for (auto &[name, ops] : unknown)
    error.attachNote() << describe(ops.front());
  return error;
}

/// Names the results before the nodes. A result that replaces an argument is
/// called `new.` and the argument's name, a gradient `grad.` and the
/// parameter's.
void GraphWriter::nameResults() {
  std::set<PortName> arguments;
  for (unsigned index = 0; index < function.getNumArguments(); ++index)
    if (PortName port(function.getArgAttrDict(index)); !port.name.empty())
      arguments.insert(port);
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    PortName port(function.getResultAttrDict(index));
    std::string wanted = "result" + std::to_string(index);
    if (!port.name.empty()) {
      bool isNext = arguments.contains(port);
      bool isGradient = port.role == Role::Gradient;
      StringRef prefix = isNext ? "new." : isGradient ? "grad." : "";
      wanted = (prefix + port.name).str();
      if (isNext)
        replaced.insert(port);
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
  // Ops are decomposed during the export, so work on a copy.
  OwningOpRef<ModuleOp> copy = module.clone();
  func::FuncOp function = findFunction(*copy);
  if (!function || function.isExternal())
    return mlir::emitError(module.getLoc(),
                           "expected a function '@step', '@gradient' or "
                           "'@forward', or exactly one public function");
  ::onnx::ModelProto model;
  model.set_ir_version(kFormatVersion);
  model.set_producer_name("binade");
  GraphWriter writer(function, *model.mutable_graph());
  if (failed(writer.run()))
    return failure();
  model.add_opset_import()->set_version(writer.getOperatorSet());
  std::string bytes;
  if (!model.SerializeToString(&bytes))
    return mlir::emitError(module.getLoc(), "is too large for an ONNX file");
  return bytes;
}
