//===- Graph.cpp - The function under construction ------------------------===//

#include "Graph.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Evaluated constants may take as much, at 8 bytes per element.
static constexpr uint64_t kConstantBudget = 64 << 20;
static constexpr StringLiteral kRngName = "rng";

static Location getNameLoc(MLIRContext *context, StringRef name) {
  return NameLoc::get(StringAttr::get(context, name));
}

const NamedValue *Graph::find(StringRef name) const {
  for (const Names &scope : llvm::reverse(scopes))
    if (auto found = scope.values.find(name); found != scope.values.end())
      return &found->second;
  return nullptr;
}

void Graph::addArgument(Role role, StringRef name, Type type, Attribute init) {
  define(name, mlir::binade::addArgument(function, role, name, type,
                                         getNameLoc(getContext(), name), init));
}

Value Graph::getRng() {
  if (std::optional<Port> port = findArgument(function, Role::Rng, kRngName))
    return function.getArgument(port->index);
  Builder b(getContext());
  return mlir::binade::addArgument(function, Role::Rng, kRngName,
                                   RankedTensorType::get({2}, b.getI64Type()),
                                   getNameLoc(getContext(), kRngName));
}

Value Graph::getBuffer(StringRef name) const {
  Value updated = updatedBuffers.lookup(name);
  return updated ? updated : lookup(name);
}

void Graph::updateBuffer(StringRef name, Value value) {
  if (findArgument(function, Role::Buffer, name))
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
  if (nodes > kMostInnerNodes - innerNodes)
    return false;
  innerNodes += nodes;
  return true;
}

void Graph::addStateResults() {
  for (const Port &port : getArguments(function, Role::Buffer))
    if (Value updated = updatedBuffers.lookup(port.name))
      addResult(function, Role::Buffer, port.name, updated);
  for (const Port &port : getArguments(function, Role::Rng)) {
    Value rng = function.getArgument(port.index);
    ImplicitLocOpBuilder b(rng.getLoc(), getContext());
    b.setInsertionPoint(function.front().getTerminator());
    Value advance = ConstantOp::create(
        b, DenseElementsAttr::get(cast<RankedTensorType>(rng.getType()),
                                  ArrayRef<int64_t>{0, 1}));
    addResult(function, Role::Rng, port.name, AddOp::create(b, rng, advance));
  }
}
