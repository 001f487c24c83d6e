//===- Order.cpp - The nodes to import, producers first -------------------===//

#include "Order.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringSet.h"
#include <queue>

using namespace mlir;
using namespace mlir::binade::importer;

namespace {
class NodeOrder {
public:
  explicit NodeOrder(const Model &model)
      : model(model), graph(model.getGraph()) {}

  FailureOr<SmallVector<unsigned>> compute() {
    if (failed(findProducers()) || failed(findLive()))
      return failure();
    return sort();
  }

private:
  Location getLoc(unsigned node) const {
    return model.getLoc(graph.node(node), node);
  }

  LogicalResult findProducers() {
    for (const auto &input : graph.input())
      if (!given.insert(input.name()).second)
        return model.emitError("input " + quote(input.name()))
               << "is defined twice";
    for (const auto &tensor : graph.initializer())
      given.insert(tensor.name());
    for (auto [index, node] : llvm::enumerate(graph.node()))
      for (const std::string &name : node.output()) {
        if (name.empty())
          continue;
        bool isNew =
            !given.contains(name) && producers.try_emplace(name, index).second;
        if (!isNew)
          return mlir::emitError(getLoc(index))
                 << "defines " << quote(name) << " a second time";
      }
    return success();
  }

  /// The producer of `name`; no value for inputs and initializers.
  std::optional<unsigned> getProducer(StringRef name) const {
    auto found = producers.find(name);
    return found == producers.end() ? std::nullopt
                                    : std::optional(found->second);
  }

  LogicalResult findLive() {
    live.resize(graph.node_size());
    SmallVector<unsigned> worklist;
    auto visit = [&](StringRef name) {
      if (std::optional<unsigned> producer = getProducer(name);
          producer && !live.test(*producer)) {
        live.set(*producer);
        worklist.push_back(*producer);
      }
    };
    llvm::StringSet<> outputs;
    for (const auto &output : graph.output()) {
      if (!outputs.insert(output.name()).second)
        return model.emitError("output " + quote(output.name()))
               << "is listed twice";
      if (!given.contains(output.name()) && !getProducer(output.name()))
        return model.emitError("output " + quote(output.name()))
               << "is defined by no node";
      visit(output.name());
    }
    while (!worklist.empty()) {
      unsigned index = worklist.pop_back_val();
      for (const std::string &name : graph.node(index).input()) {
        if (!name.empty() && !given.contains(name) && !getProducer(name))
          return mlir::emitError(getLoc(index))
                 << "reads " << quote(name) << ", which nothing defines";
        visit(name);
      }
    }
    return success();
  }

  FailureOr<SmallVector<unsigned>> sort() {
    std::vector<SmallVector<unsigned>> users(graph.node_size());
    std::vector<unsigned> missing(graph.node_size());
    std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
    for (unsigned index : live.set_bits()) {
      for (const std::string &name : graph.node(index).input())
        if (std::optional<unsigned> producer = getProducer(name)) {
          users[*producer].push_back(index);
          ++missing[index];
        }
      if (missing[index] == 0)
        ready.push(index);
    }
    SmallVector<unsigned> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (unsigned user : users[order.back()])
        if (--missing[user] == 0)
          ready.push(user);
    }
    if (order.size() == live.count())
      return order;
    for (unsigned index : order)
      live.reset(index);
    return reportCycle();
  }

  /// Follows producers among the nodes that are left until one comes again.
  LogicalResult reportCycle() {
    SmallVector<unsigned> path;
    unsigned index = live.find_first();
    while (!llvm::is_contained(path, index)) {
      path.push_back(index);
      for (const std::string &name : graph.node(index).input())
        if (std::optional<unsigned> producer = getProducer(name);
            producer && live.test(*producer)) {
          index = *producer;
          break;
        }
    }
    path.erase(path.begin(), llvm::find(path, index));
    InFlightDiagnostic error = mlir::emitError(getLoc(index));
    error << "depends on its own result, through " << path.size() << " node"
          << (path.size() == 1 ? "" : "s");
    for (unsigned member : ArrayRef(path).take_front(8))
      error.attachNote(getLoc(member)) << "is part of the cycle";
    return error;
  }

  const Model &model;
  const ::onnx::GraphProto &graph;
  llvm::StringSet<> given; // Names that have a value from the start.
  llvm::StringMap<unsigned> producers;
  llvm::BitVector live;
};
} // namespace

FailureOr<SmallVector<unsigned>>
mlir::binade::importer::sortNodes(const Model &model) {
  return NodeOrder(model).compute();
}

llvm::StringSet<>
mlir::binade::importer::collectUsed(const Model &model,
                                    ArrayRef<unsigned> order) {
  llvm::StringSet<> used;
  for (unsigned index : order)
    for (const std::string &name : model.getGraph().node(index).input())
      used.insert(name);
  for (const auto &output : model.getGraph().output())
    used.insert(output.name());
  return used;
}
