//===- DefineInitializers.cpp - Values of initializers --------------------===//

#include "DefineInitializers.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using Tensor = Initializers::Tensor;

namespace {
class Definer {
public:
  Definer(Initializers &initializers, const Metadata &metadata, Graph &graph,
          ImportReport &report)
      : initializers(initializers), metadata(metadata), graph(graph),
        report(report) {}

  LogicalResult defineArguments(Role role, ArrayRef<const Tensor *> members,
                                TensorGroup &group);
  LogicalResult defineConstant(const Tensor &tensor);

private:
  Initializers &initializers;
  const Metadata &metadata;
  Graph &graph;
  ImportReport &report;
};
} // namespace

LogicalResult Definer::defineArguments(Role role,
                                       ArrayRef<const Tensor *> members,
                                       TensorGroup &group) {
  SmallVector<NewArgument> arguments;
  SmallVector<std::pair<StringRef, StringRef>> tied;
  for (const Tensor *tensor : members) {
    Attribute value;
    if (tensor->proto) {
      auto place = initializers.locate(graph.getTensors(), *tensor);
      if (failed(place))
        return failure();
      if (place->owner != tensor->name) {
        tied.push_back({tensor->name, place->owner});
        continue;
      }
      value = place->value;
    } else {
      const InitialRule &rule = metadata.initial.find(tensor->name)->second;
      value = getInitialValue(rule, tensor->type);
    }
    arguments.push_back(makeArgument(tensor->name, tensor->type, value));
    arguments.back().isFrozen = role == Role::Buffer && !tensor->isBuffer;
    group.add(tensor->type);
  }
  graph.addArguments(role, arguments);
  for (auto [name, owner] : tied)
    graph.define(name, graph.lookup(owner));
  return success();
}

LogicalResult Definer::defineConstant(const Tensor &tensor) {
  FailureOr<TypedAttr> value = graph.getTensors().readConstant(
      initializers.getLoc(tensor.name), *tensor.proto, tensor.range);
  if (failed(value))
    return failure();
  Location loc = NameLoc::get(StringAttr::get(graph.getContext(), tensor.name));
  OpBuilder b(graph.getFunction().front().getTerminator());
  graph.define(tensor.name, ConstantOp::create(b, loc, *value));
  return success();
}

LogicalResult
mlir::binade::importer::defineInitializers(Initializers &initializers,
                                           const Metadata &metadata,
                                           Graph &graph, ImportReport &report) {
  Definer definer(initializers, metadata, graph, report);
  SmallVector<const Tensor *> parameters, kept;
  for (const Tensor &tensor : initializers.getTensors()) {
    if (!tensor.isConstant()) {
      (tensor.isTrained ? parameters : kept).push_back(&tensor);
      continue;
    }
    if (failed(definer.defineConstant(tensor)))
      return failure();
    report.constants.add(tensor.type);
  }
  return success(
      succeeded(definer.defineArguments(Role::Parameter, parameters,
                                        report.parameters)) &&
      succeeded(definer.defineArguments(Role::Buffer, kept, report.buffers)));
}
