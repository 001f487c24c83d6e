//===- Graph.cpp - The function under construction ------------------------===//

#include "Graph.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// The maximum size of all folded constants, at 8 bytes per element.
static constexpr uint64_t kConstantBudget = 64 << 20;
static constexpr StringLiteral kRngName = "rng";

NewArgument mlir::binade::importer::makeArgument(StringRef name, Type type,
                                                 Attribute init) {
  MLIRContext *context = type.getContext();
  return {name.str(), type, NameLoc::get(StringAttr::get(context, name)), init};
}

Location mlir::binade::importer::getGraphLoc(MLIRContext *context,
                                             StringRef name) {
  Location graph = NameLoc::get(StringAttr::get(context, name));
  // The metadata replaces the name in errors.
  return FusedLoc::get(context, graph, StringAttr::get(context, ""));
}

const NamedValue *Graph::find(StringRef name) const {
  for (const Names &scope : llvm::reverse(scopes))
    if (auto found = scope.values.find(name); found != scope.values.end())
      return &found->second;
  return nullptr;
}

void Graph::addArguments(Role role, ArrayRef<NewArgument> arguments) {
  SmallVector<Value> added =
      mlir::binade::addArguments(function, role, arguments);
  for (auto [argument, value] : llvm::zip(arguments, added)) {
    define(argument.name, value);
    if (role == Role::Buffer)
      buffers.insert(argument.name);
  }
}

Value Graph::getRng() {
  if (!rng) {
    auto type = RankedTensorType::get({2}, IntegerType::get(getContext(), 64));
    rng = mlir::binade::addArguments(function, Role::Rng,
                                     makeArgument(kRngName, type))
              .front();
  }
  return rng;
}

Value Graph::getBuffer(StringRef name) const {
  Value updated = updatedBuffers.lookup(name);
  return updated ? updated : lookup(name);
}

void Graph::updateBuffer(StringRef name, Value value) {
  if (buffers.contains(name))
    updatedBuffers[name] = value;
}

bool Graph::spend(int64_t elements) {
  uint64_t bytes = static_cast<uint64_t>(elements) * 8;
  if (bytes > kConstantBudget - evaluatedBytes)
    return false;
  evaluatedBytes += bytes;
  return true;
}

bool Graph::takeNodes(uint64_t nodes) {
  if (nodes > kMaxInnerNodes - innerNodes)
    return false;
  innerNodes += nodes;
  return true;
}

void Graph::addStateResults() {
  SmallVector<NewResult> results;
  for (const Port &port : getArguments(function, Role::Buffer))
    if (Value updated = updatedBuffers.lookup(port.name))
      results.push_back({Role::Buffer, port.name.str(), updated});
  if (rng) {
    ImplicitLocOpBuilder b(rng.getLoc(), getContext());
    b.setInsertionPoint(function.front().getTerminator());
    Value advance = ConstantOp::create(
        b, DenseElementsAttr::get(cast<RankedTensorType>(rng.getType()),
                                  ArrayRef<int64_t>{0, 1}));
    results.push_back(
        {Role::Rng, kRngName.str(), AddOp::create(b, rng, advance)});
  }
  addResults(function, results);
}
