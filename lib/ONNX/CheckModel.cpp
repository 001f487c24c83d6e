//===- CheckModel.cpp - Checks that a file is valid ONNX ------------------===//

#include "binade/ONNX/CheckModel.h"
#include "CheckNode.h"
#include "CheckSparse.h"
#include "binade/ONNX/Dimensions.h"
#include "binade/ONNX/Order.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

namespace {
/// The context of the nodes that are being checked.
struct Scope {
  OperatorSets sets;
  const FunctionProto *function = nullptr;
  const Scope *outer = nullptr;
  std::string prefix;             ///< Precedes names of nodes in errors.
  llvm::StringSet<> names = {};   ///< All names that the graph defines.
  llvm::StringSet<> visible = {}; ///< Those defined before the current node.

  bool has(StringRef name) const {
    return names.contains(name) || (outer && outer->has(name));
  }
  bool sees(StringRef name) const {
    return visible.contains(name) || (outer && outer->sees(name));
  }
};

class ModelChecker {
public:
  using IsRuntimeOp = function_ref<bool(StringRef domain, StringRef op)>;

  ModelChecker(const Model &model, TensorReader &tensors,
               IsRuntimeOp isRuntimeOp)
      : model(model), tensors(tensors), isRuntimeOp(isRuntimeOp) {
    for (const FunctionProto &function : model.getProto().functions())
      functions[getKey(function.domain(), function.name(),
                       function.overload())] = &function;
  }

  LogicalResult run();

private:
  static std::string getKey(StringRef domain, StringRef name,
                            StringRef overload) {
    return (domain + Twine('\0') + name + Twine('\0') + overload).str();
  }
  LogicalResult checkMetadata();
  LogicalResult checkValue(StringRef kind, const ValueInfoProto &value);
  LogicalResult checkTensor(Location loc, const TensorProto &tensor);
  LogicalResult checkInitializers(const GraphProto &graph);
  LogicalResult checkGraph(const GraphProto &graph, Scope &scope);
  LogicalResult checkNode(const NodeProto &node, unsigned index, Scope &scope);
  LogicalResult checkValues(Location loc, const NodeProto &node,
                            const std::string &name, Scope &scope);
  LogicalResult checkOp(Location loc, const NodeProto &node,
                        const Scope &scope);
  LogicalResult checkFunction(const FunctionProto &function);
  bool reaches(const FunctionProto &from, const FunctionProto &to,
               llvm::StringSet<> &seen) const;
  const FunctionProto *findFunction(const NodeProto &node) const {
    return functions.lookup(
        getKey(node.domain(), node.op_type(), node.overload()));
  }

  const Model &model;
  TensorReader &tensors;
  IsRuntimeOp isRuntimeOp;
  llvm::StringMap<const FunctionProto *> functions;
};
} // namespace

template <typename Imports>
static OperatorSets readSets(const Imports &imports) {
  OperatorSets sets;
  for (const auto &set : imports)
    sets[isStandardDomain(set.domain()) ? "" : set.domain()] = set.version();
  return sets;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

LogicalResult ModelChecker::checkMetadata() {
  llvm::StringSet<> keys;
  for (const auto &entry : model.getProto().metadata_props())
    if (!keys.insert(entry.key()).second)
      return model.emitError("metadata " + quote(entry.key()))
             << "is given twice";
  return success();
}

/// Checks the declaration of a value, which may be incomplete.
LogicalResult ModelChecker::checkValue(StringRef kind,
                                       const ValueInfoProto &value) {
  if (value.name().empty())
    return model.emitError() << "has an " << kind << " without a name";
  Location loc = model.getLoc(kind + " " + quote(value.name()));
  if (!value.type().has_tensor_type())
    return success();
  const auto &type = value.type().tensor_type();
  if (!TensorProto::DataType_IsValid(type.elem_type()) ||
      type.elem_type() == TensorProto::UNDEFINED)
    return mlir::emitError(loc) << describeElementType(type.elem_type());
  for (const auto &dimension : type.shape().dim())
    if (dimension.dim_value() < 0)
      return mlir::emitError(loc)
             << "has a dimension of negative length " << dimension.dim_value();
  return success();
}

/// Checks a stored tensor. If the IR lacks the element type, only checks that
/// ONNX has it.
LogicalResult ModelChecker::checkTensor(Location loc,
                                        const TensorProto &tensor) {
  if (!TensorProto::DataType_IsValid(tensor.data_type()) ||
      tensor.data_type() == TensorProto::UNDEFINED)
    return mlir::emitError(loc) << describeElementType(tensor.data_type());
  if (!getElementType(model.getContext(), tensor.data_type()))
    return success();
  std::vector<Diagnostic> found;
  {
    DiagnosticCollector errors(model.getContext());
    if (succeeded(tensors.check(loc, tensor)) || errors.isUnsupported())
      return success();
    found = errors.takeDiagnostics();
  }
  emitAgain(model.getContext(), std::move(found));
  return failure();
}

LogicalResult ModelChecker::checkInitializers(const GraphProto &graph) {
  llvm::StringSet<> names;
  llvm::StringMap<const ValueInfoProto *> inputs;
  for (const ValueInfoProto &input : graph.input())
    inputs[input.name()] = &input;
  auto define = [&](const std::string &name) -> LogicalResult {
    if (name.empty())
      return model.emitError() << "has an initializer without a name";
    if (!names.insert(name).second)
      return model.emitError("initializer " + quote(name))
             << "is defined twice";
    return success();
  };
  for (const TensorProto &tensor : graph.initializer()) {
    Location loc = model.getLoc("initializer " + quote(tensor.name()));
    if (failed(define(tensor.name())) || failed(checkTensor(loc, tensor)))
      return failure();
    const ValueInfoProto *input = inputs.lookup(tensor.name());
    Type element = getElementType(model.getContext(), tensor.data_type());
    if (!input || !element)
      continue;
    auto type = RankedTensorType::get(
        ArrayRef(tensor.dims().data(), tensor.dims().size()), element);
    if (failed(Dimensions().check(model, "initializer", *input, type, "is")))
      return failure();
  }
  for (const auto &tensor : graph.sparse_initializer())
    if (failed(define(tensor.values().name())) ||
        failed(checkSparse(
            model.getLoc("initializer " + quote(tensor.values().name())),
            tensor, tensors)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

static void collectNames(const GraphProto &graph, Scope &scope) {
  auto add = [&](const std::string &name) {
    scope.names.insert(name);
    scope.visible.insert(name);
  };
  for (const ValueInfoProto &input : graph.input())
    add(input.name());
  for (const TensorProto &tensor : graph.initializer())
    add(tensor.name());
  for (const auto &tensor : graph.sparse_initializer())
    add(tensor.values().name());
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      scope.names.insert(name);
}

LogicalResult ModelChecker::checkGraph(const GraphProto &graph, Scope &scope) {
  for (const ValueInfoProto &input : graph.input())
    if (failed(checkValue("input", input)))
      return failure();
  for (const ValueInfoProto &output : graph.output())
    if (failed(checkValue("output", output)))
      return failure();
  for (const ValueInfoProto &value : graph.value_info())
    if (failed(checkValue("value", value)))
      return failure();
  if (failed(checkInitializers(graph)))
    return failure();
  auto isOuter = [&](StringRef name) {
    return scope.outer && scope.outer->has(name);
  };
  if (failed(sortNodes(model, graph, isOuter, scope.prefix)))
    return failure();
  collectNames(graph, scope);
  for (auto [index, node] : llvm::enumerate(graph.node())) {
    if (failed(checkNode(node, index, scope)))
      return failure();
    for (const std::string &name : node.output())
      scope.visible.insert(name);
  }
  return success();
}

LogicalResult ModelChecker::checkNode(const NodeProto &node, unsigned index,
                                      Scope &scope) {
  std::string name = scope.prefix + getNodeName(node, index);
  Location loc = model.getLoc(node, name);
  if (node.op_type().empty())
    return mlir::emitError(loc) << "has no op type";
  llvm::SmallDenseSet<StringRef, 8> attributes;
  for (const AttributeProto &attribute : node.attribute())
    if (!attributes.insert(attribute.name()).second)
      return mlir::emitError(loc)
             << "attribute " << quote(attribute.name()) << " is given twice";
  for (const AttributeProto &attribute : node.attribute())
    if (failed(checkAttribute(loc, attribute, scope.function)))
      return failure();
  return success(succeeded(checkOp(loc, node, scope)) &&
                 succeeded(checkValues(loc, node, name, scope)));
}

/// Checks the tensors and graphs that are attributes of `node`.
LogicalResult ModelChecker::checkValues(Location loc, const NodeProto &node,
                                        const std::string &name, Scope &scope) {
  auto enter = [&](const AttributeProto &attribute, const GraphProto &graph) {
    for (const NodeProto &inside : graph.node())
      for (const std::string &output : inside.output())
        if (!output.empty() && scope.sees(output))
          return LogicalResult(
              mlir::emitError(loc)
              << "value " << quote(output) << " of " << quote(attribute.name())
              << " has the name of a value of an enclosing graph");
    Scope inner{scope.sets, scope.function, &scope,
                name + "/" + attribute.name() + "/"};
    return checkGraph(graph, inner);
  };
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.has_t() && failed(checkTensor(loc, attribute.t())))
      return failure();
    for (const TensorProto &tensor : attribute.tensors())
      if (failed(checkTensor(loc, tensor)))
        return failure();
    if (attribute.has_sparse_tensor() &&
        failed(checkSparse(loc, attribute.sparse_tensor(), tensors)))
      return failure();
    if (attribute.has_g() && failed(enter(attribute, attribute.g())))
      return failure();
    for (const GraphProto &graph : attribute.graphs())
      if (failed(enter(attribute, graph)))
        return failure();
  }
  return success();
}

LogicalResult ModelChecker::checkOp(Location loc, const NodeProto &node,
                                    const Scope &scope) {
  if (const FunctionProto *function = findFunction(node)) {
    if (node.input_size() <= function->input_size() &&
        node.output_size() <= function->output_size())
      return success();
    return mlir::emitError(loc)
           << "has " << node.input_size() << " inputs and "
           << node.output_size() << " outputs, but function "
           << quote(function->name()) << " has " << function->input_size()
           << " and " << function->output_size();
  }
  std::string domain = isStandardDomain(node.domain()) ? "" : node.domain();
  auto set = scope.sets.find(domain);
  if (set == scope.sets.end() && isRuntimeOp(domain, node.op_type()))
    return success();
  if (set == scope.sets.end())
    return mlir::emitError(loc)
           << "is of domain " << quote(domain)
           << ", but the model imports no operator set of that domain";
  if (!domain.empty() || !model.hasKnownOpset())
    return success();
  const OpSchema *schema = findSchema("", node.op_type(), scope.sets);
  if (!schema)
    return success();
  return success(succeeded(checkSchema(loc, node, *schema, set->second)) &&
                 succeeded(checkBranches(loc, node, set->second)));
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static void forEachNode(const google::protobuf::RepeatedPtrField<NodeProto> &in,
                        function_ref<void(const NodeProto &)> visit) {
  for (const NodeProto &node : in) {
    visit(node);
    forEachGraph(node, [&](const GraphProto &graph) {
      forEachNode(graph.node(), visit);
    });
  }
}

/// Returns whether `from` calls `to`, directly or through other functions.
bool ModelChecker::reaches(const FunctionProto &from, const FunctionProto &to,
                           llvm::StringSet<> &seen) const {
  SmallVector<const FunctionProto *> worklist = {&from};
  while (!worklist.empty()) {
    const FunctionProto *function = worklist.pop_back_val();
    bool isFound = false;
    forEachNode(function->node(), [&](const NodeProto &node) {
      const FunctionProto *called = findFunction(node);
      isFound |= called == &to;
      if (called && seen.insert(getKey(called->domain(), called->name(),
                                       called->overload()))
                        .second)
        worklist.push_back(called);
    });
    if (isFound)
      return true;
  }
  return false;
}

LogicalResult ModelChecker::checkFunction(const FunctionProto &function) {
  std::string part = "function " + quote(function.name());
  if (functions.lookup(getKey(function.domain(), function.name(),
                              function.overload())) != &function)
    return model.emitError(part) << "is defined twice";
  llvm::StringSet<> seen;
  if (reaches(function, function, seen))
    return model.emitError(part) << "calls functions more than 32 deep: it "
                                    "calls itself";
  // Check the body as a graph whose inputs have no types.
  GraphProto body;
  for (const std::string &input : function.input())
    body.add_input()->set_name(input);
  for (const std::string &output : function.output())
    body.add_output()->set_name(output);
  *body.mutable_node() = function.node();
  Scope scope{readSets(function.opset_import()), &function, nullptr,
              function.name() + "/"};
  if (scope.sets.empty())
    scope.sets = readSets(model.getProto().opset_import());
  return checkGraph(body, scope);
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

LogicalResult ModelChecker::run() {
  if (failed(checkMetadata()))
    return failure();
  for (const ValueInfoProto &input : model.getGraph().input())
    if (input.type().value_case() == ::onnx::TypeProto::VALUE_NOT_SET)
      return model.emitError("input " + quote(input.name())) << "has no type";
  Scope scope{readSets(model.getProto().opset_import()), nullptr, nullptr, ""};
  if (failed(checkGraph(model.getGraph(), scope)))
    return failure();
  for (const FunctionProto &function : model.getProto().functions())
    if (failed(checkFunction(function)))
      return failure();
  return success();
}

LogicalResult mlir::binade::checkModel(
    Model &model, TensorReader &tensors,
    function_ref<bool(StringRef domain, StringRef op)> isRuntimeOp) {
  return success(succeeded(model.findOpset()) &&
                 succeeded(ModelChecker(model, tensors, isRuntimeOp).run()));
}
