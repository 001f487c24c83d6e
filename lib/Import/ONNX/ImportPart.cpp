//===- ImportPart.cpp - Import of the supported part of a file ------------===//
// Imports the nodes that Binade supports, so that formats can be decided for
// them. Other nodes are left out, and the reason is recorded.
//===----------------------------------------------------------------------===//

#include "DefineInitializers.h"
#include "InlineFunctions.h"
#include "Loss.h"
#include "OpTable.h"
#include "PartImporter.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/EraseDead.h"
#include "binade/ONNX/CheckModel.h"
#include "binade/ONNX/InferTypes.h"
#include "binade/ONNX/Order.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

PartImporter::Level::Level(const ::onnx::GraphProto &graph,
                           const ::onnx::GraphProto *inferred)
    : graph(graph), inferred(inferred) {
  auto add = [&](const ::onnx::GraphProto &from) {
    for (const auto *values : {&from.value_info(), &from.output()})
      for (const auto &value : *values)
        types.try_emplace(value.name(), &value);
  };
  if (inferred)
    add(*inferred);
  add(graph);
}

PartImporter::PartImporter(Model &model, const ImportOptions &options,
                           PartialImport &partial)
    : model(model), file(model.getGraph()), options(options), partial(partial),
      tensors(model, options.allowHardLinks) {
  unsigned place = 0;
  forEachNode(file, [&](const ::onnx::NodeProto &node, const Twine &, size_t,
                        unsigned) { places[&node] = place++; });
}

void mlir::binade::importer::forEachNode(
    const ::onnx::GraphProto &graph,
    function_ref<void(const ::onnx::NodeProto &, const Twine &, size_t,
                      unsigned)>
        visit,
    const std::string &prefix, unsigned depth) {
  for (auto [index, node] : llvm::enumerate(graph.node())) {
    visit(node, prefix, index, depth);
    for (const auto &attribute : node.attribute()) {
      if (!attribute.has_g() && attribute.graphs().empty())
        continue;
      std::string inner =
          prefix + getNodeName(node, index) + "/" + attribute.name() + "/";
      if (attribute.has_g())
        forEachNode(attribute.g(), visit, inner, depth + 1);
      for (const auto &body : attribute.graphs())
        forEachNode(body, visit, inner, depth + 1);
    }
  }
}

LogicalResult PartImporter::prepare() {
  FailureOr<Metadata> read = readMetadata(model);
  if (failed(read))
    return failure();
  metadata = std::move(*read);
  // Which tensors are trained is only assumed, so any of them may be a mask.
  if (options.failOnNonfinite)
    for (const auto &tensor : file.initializer())
      if (failed(tensors.checkFinite(
              model.getLoc("initializer " + quote(tensor.name())), tensor,
              /*canBeMask=*/true)))
        return failure();
  llvm::StringMap<int64_t> defaults = metadata.dims;
  for (const auto &input : file.input())
    for (const auto &dimension : input.type().tensor_type().shape().dim())
      if (const std::string &name = dimension.dim_param(); !name.empty()) {
        bool isNew = defaults.insert({name, kAssumedLength}).second;
        if (isNew && !options.dims.contains(name))
          assumedLengths.insert(name);
      }
  if (failed(dimensions.bind(model, options.dims, defaults)))
    return failure();
  for (const auto &input : file.input())
    if (!hasLengths(input))
      assumed.insert(input.name());
  return success();
}

/// Whether all lengths of `value` are known rather than assumed.
bool PartImporter::hasLengths(const ::onnx::ValueInfoProto &value) const {
  return llvm::all_of(
      value.type().tensor_type().shape().dim(), [&](const auto &dimension) {
        return dimension.has_dim_value() ||
               (dimensions.isBound(dimension.dim_param()) &&
                !assumedLengths.contains(dimension.dim_param()));
      });
}

/// Fails if the file declares a value with a type other than the computed one.
LogicalResult PartImporter::checkDeclared(Graph &graph) {
  auto check = [&](StringRef part, const auto &values) -> LogicalResult {
    for (const auto &info : values)
      if (Value value = graph.lookup(info.name()))
        if (auto type = dyn_cast<RankedTensorType>(value.getType()))
          if (failed(dimensions.check(model, part, info, type, "is computed as",
                                      assumed.contains(info.name()))))
            return failure();
    return success();
  };
  return success(succeeded(check("value", file.value_info())) &&
                 succeeded(check("output", file.output())));
}

/// Tensors of element types that the IR lacks get no value.
void PartImporter::dropUnknownTensors(Level &level) {
  for (const auto &tensor : file.initializer())
    if (!getElementType(model.getContext(), tensor.data_type()))
      level.used.erase(tensor.name());
}

LogicalResult PartImporter::classify(const Level &level,
                                     Initializers &initializers) {
  bool isUnspecified =
      !metadata.trainable &&
      llvm::none_of(file.initializer(), [](const auto &tensor) {
        return tensor.data_location() == ::onnx::TensorProto::EXTERNAL;
      });
  ImportReport ignored;
  return initializers.classify(level.order, level.used, dimensions, tensors,
                               options, ignored.unused, isUnspecified,
                               /*warns=*/false);
}

void PartImporter::createFunction() {
  MLIRContext *context = model.getContext();
  OpBuilder b(context);
  module = ModuleOp::create(b, b.getUnknownLoc());
  Location loc = getGraphLoc(context, file.name());
  b.setInsertionPointToEnd(module->getBody());
  function =
      func::FuncOp::create(b, loc, kForwardName, b.getFunctionType({}, {}));
  b.setInsertionPointToEnd(function.addEntryBlock());
  func::ReturnOp::create(b, loc);
}

RankedTensorType PartImporter::getType(const ::onnx::ValueInfoProto &value,
                                       RankedTensorType like) {
  ::onnx::ValueInfoProto known = value;
  auto &tensor = *known.mutable_type()->mutable_tensor_type();
  if (!value.type().has_tensor_type() || !tensor.has_shape())
    return {};
  bool isLike = like && like.getRank() == tensor.shape().dim_size();
  for (auto [axis, dimension] :
       llvm::enumerate(*tensor.mutable_shape()->mutable_dim())) {
    if (dimension.has_dim_value() || dimensions.isBound(dimension.dim_param()))
      continue;
    int64_t length = isLike ? like.getDimSize(axis) : 0;
    dimension.set_dim_value(length > 0 ? length : kAssumedLength);
  }
  DiagnosticCollector ignored(model.getContext());
  FailureOr<RankedTensorType> type = dimensions.getType(model, known);
  return succeeded(type) ? *type : RankedTensorType();
}

Value PartImporter::makeStandIn(const std::string &name,
                                RankedTensorType type) {
  NewArgument made = importer::makeArgument(name, type);
  arguments.push_back(made);
  return standIns.addArgument(made.type, made.loc);
}

void PartImporter::addStandIn(Graph &graph, const std::string &name,
                              const Known &type) {
  // Subgraphs of different nodes may define the same name.
  std::string qualified = graph.getQualified(name);
  if (type.tensor)
    graph.define(name, makeStandIn(qualified, type.tensor));
  if (!type.sequence)
    return;
  SmallVector<Value> elements;
  for (auto [index, element] : llvm::enumerate(*type.sequence))
    elements.push_back(
        makeStandIn(qualified + "." + std::to_string(index), element));
  graph.define(name, NamedValue{Value(), std::move(elements)});
}

/// Returns the types of `value`, which may be null.
PartImporter::Known PartImporter::getKnown(const NamedValue *value) {
  Known known;
  if (value && value->tensor)
    known.tensor = dyn_cast<RankedTensorType>(value->tensor.getType());
  if (!value || !value->sequence)
    return known;
  known.sequence.emplace();
  for (Value element : *value->sequence)
    known.sequence->push_back(cast<RankedTensorType>(element.getType()));
  return known;
}

static std::string describeType(const ::onnx::ValueInfoProto &value) {
  return value.type().tensor_type().SerializeAsString();
}

/// Returns the element types and shapes of the outputs other than the loss;
/// nothing if the graph has no loss.
llvm::StringSet<> PartImporter::findUpdatedTypes() const {
  StringRef loss = options.lossOutput.empty() ? StringRef(kLossName)
                                              : StringRef(options.lossOutput);
  llvm::StringSet<> updated;
  bool hasLoss = false;
  for (const auto &output : file.output()) {
    hasLoss |= output.name() == loss;
    if (output.name() != loss)
      updated.insert(describeType(output));
  }
  return hasLoss ? std::move(updated) : llvm::StringSet<>();
}

/// Adds the graph's inputs as arguments. A matrix is a parameter if an output,
/// its gradient or new value, has its type.
void PartImporter::addInputs(Graph &graph) {
  llvm::StringSet<> updated = findUpdatedTypes();
  SmallVector<NewArgument> parameters, batch;
  for (const auto &input : file.input()) {
    if (graph.lookup(input.name()))
      continue;
    const auto &type = input.type().tensor_type();
    bool isUpdated = type.elem_type() == ::onnx::TensorProto::FLOAT &&
                     type.shape().dim_size() >= 2 &&
                     updated.contains(describeType(input));
    if (RankedTensorType known = getType(input))
      (isUpdated ? parameters : batch)
          .push_back(importer::makeArgument(input.name(), known));
  }
  graph.addArguments(Role::Parameter, parameters);
  graph.addArguments(Role::Batch, batch);
}

void PartImporter::addStandIns() {
  SmallVector<Value> values = addArguments(function, Role::Batch, arguments);
  for (auto [standIn, value] : llvm::zip(standIns.getArguments(), values))
    standIn.replaceAllUsesWith(value);
}

void PartImporter::addResults(Graph &graph) {
  SmallVector<NewResult> results;
  llvm::DenseSet<Value> returned;
  auto add = [&](const std::string &name, Value value) {
    results.push_back({Role::Output, name, value});
    returned.insert(value);
  };
  for (const auto &output : file.output())
    if (Value value = graph.lookup(output.name()))
      add(output.name(), value);
  for (auto [index, value] : llvm::enumerate(read))
    if (!returned.contains(value))
      add("left out " + std::to_string(index), value);
  mlir::binade::addResults(function, results);
}

FailureOr<OwningOpRef<ModuleOp>> PartImporter::run() {
  Level &level = levels.emplace_back(
      file, partial.inferred ? &partial.inferred->graph() : nullptr);
  FailureOr<SmallVector<unsigned>> sorted = sortNodes(model, file);
  if (failed(sorted))
    return failure();
  level.order = *sorted;
  level.used = collectUsed(file, level.order);
  dropUnknownTensors(level);
  Initializers initializers(model, metadata);
  if (failed(classify(level, initializers)))
    return failure();
  createFunction();
  Graph graph(model, metadata, tensors, level.used, function);
  ImportReport ignored;
  if (failed(defineInitializers(initializers, metadata, graph, ignored)))
    return failure();
  addInputs(graph);
  importNodes(graph, level);
  if (!wrong.empty()) {
    emitAgain(model.getContext(), std::move(wrong));
    return failure();
  }
  if (failed(checkDeclared(graph)))
    return failure();
  graph.addStateResults();
  addResults(graph);
  addStandIns();
  eraseDead(function);
  if (failed(verify(*module)))
    return failure();
  return std::move(module);
}

/// Whether the file declares the types of all node outputs. If not, or if a
/// node has subgraphs, types are inferred.
static bool declaresAllTypes(const ::onnx::GraphProto &graph) {
  llvm::StringSet<> known;
  for (const auto *values : {&graph.value_info(), &graph.output()})
    for (const auto &value : *values)
      known.insert(value.name());
  return llvm::all_of(graph.node(), [&](const ::onnx::NodeProto &node) {
    return !hasSubgraphs(node) &&
           llvm::all_of(node.output(), [&](const std::string &name) {
             return name.empty() || known.contains(name);
           });
  });
}

/// Inlines functions, so that each call gets its own formats. Functions that
/// cannot be inlined remain.
static void inlineCalls(Model &model, PartialImport &partial) {
  if (model.getProto().functions().empty())
    return;
  DiagnosticCollector ignored(model.getContext());
  partial.hasInlined = succeeded(inlineForConversion(model));
}

/// Returns the part of the file that an error is about, and the message.
static std::string describeError(DiagnosticCollector &errors) {
  ::binade::Error error = errors.takeError("", "it cannot be imported");
  return error.part + (error.part.empty() ? "" : ": ") + error.message;
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::binade::importOnnxPart(StringRef path, const ImportOptions &options,
                             MLIRContext *context, PartialImport &partial) {
  context->loadDialect<BinadeDialect, func::FuncDialect>();
  Model model(context, path);
  if (failed(model.read())) {
    partial.exitCode = model.getExitCode();
    return failure();
  }
  TensorReader tensors(model, options.allowHardLinks);
  if (failed(checkModel(model, tensors, isRuntimeOp)))
    return failure();
  partial.model = model.share();
  bool isSupported;
  {
    DiagnosticCollector errors(context);
    isSupported = succeeded(model.checkSupported());
    if (!isSupported)
      partial.everything = describeError(errors);
  }
  if (isSupported) {
    inlineCalls(model, partial);
    if (!declaresAllTypes(model.getGraph()))
      partial.inferred = inferTypes(model.getProto());
  }
  forEachNode(model.getGraph(), [&](const ::onnx::NodeProto &node,
                                    const Twine &prefix, size_t index,
                                    unsigned depth) {
    partial.nodes.push_back({(prefix + getNodeName(node, index)).str(), ""});
    partial.nodes.back().depth = depth;
  });
  PartImporter importer(model, options, partial);
  if (failed(importer.prepare()))
    return failure();
  if (!isSupported)
    return OwningOpRef<ModuleOp>();
  std::vector<Diagnostic> wrong;
  {
    DiagnosticCollector errors(context);
    if (auto module = importer.run(); succeeded(module))
      return module;
    if (errors.isUnsupported() || !errors.isAboutFile()) {
      partial.everything = describeError(errors);
      return OwningOpRef<ModuleOp>();
    }
    wrong = errors.takeDiagnostics();
  }
  emitAgain(context, std::move(wrong));
  return failure();
}

FailureOr<std::shared_ptr<::onnx::ModelProto>>
mlir::binade::readOnnx(StringRef path, MLIRContext *context) {
  Model model(context, path);
  if (failed(model.read()))
    return failure();
  return model.share();
}
