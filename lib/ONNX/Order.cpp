//===- Order.cpp - Nodes in topological order -----------------------------===//

#include "binade/ONNX/Order.h"
#include "binade/Container/Suggest.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringSet.h"
#include <algorithm>
#include <queue>

using namespace mlir;
using namespace mlir::binade;

namespace {
class NodeOrder {
public:
  NodeOrder(const Model &model, const ::onnx::GraphProto &graph,
            function_ref<bool(StringRef)> isOuter, StringRef prefix)
      : model(model), graph(graph), isOuter(isOuter), prefix(prefix) {}

  FailureOr<SmallVector<unsigned>> compute() {
    if (failed(findProducers()) || failed(checkReads()))
      return failure();
    FailureOr<SmallVector<unsigned>> order = sort();
    if (failed(order))
      return failure();
    if (!isOuter && failed(checkOutputs()))
      return failure();
    findLive();
    llvm::erase_if(*order, [&](unsigned index) { return !live.test(index); });
    if (!isOuter)
      warnUnlessSorted(*order);
    return order;
  }

private:
  Location getLoc(unsigned node) const {
    return model.getLoc(graph.node(node),
                        (prefix + getNodeName(graph.node(node), node)).str());
  }

  LogicalResult findProducers() {
    for (const auto &input : graph.input())
      if (!given.insert(input.name()).second)
        return model.emitError("input " + quote(input.name()))
               << "is defined twice";
    for (const auto &tensor : graph.initializer())
      given.insert(tensor.name());
    for (const auto &tensor : graph.sparse_initializer())
      given.insert(tensor.values().name());
    for (auto [index, node] : llvm::enumerate(graph.node()))
      for (const std::string &name : node.output()) {
        if (name.empty())
          continue;
        bool isNew =
            !given.contains(name) && producers.try_emplace(name, index).second;
        if (!isNew)
          return reportSecond(index, name);
      }
    return success();
  }

  LogicalResult reportSecond(unsigned node, StringRef name) const {
    InFlightDiagnostic error = mlir::emitError(getLoc(node))
                               << "defines " << quote(name) << " a second time";
    if (std::optional<unsigned> producer = getProducer(name))
      error.attachNote(getLoc(*producer)) << "defines it first";
    else
      error.attachNote(model.getLoc())
          << quote(name) << " is an input or an initializer";
    return error;
  }

  /// Returns a hint with defined names that are similar to the undefined
  /// `name`.
  std::string suggest(StringRef name) const {
    // Limits the time, which grows with the number of names in the file.
    constexpr size_t kMax = 4096;
    std::vector<std::string> names;
    auto collect = [&](StringRef other) {
      if (names.size() < kMax)
        names.push_back(other.str());
    };
    llvm::for_each(given.keys(), collect);
    llvm::for_each(producers.keys(), collect);
    llvm::sort(names);
    return ::binade::suggest(name, names);
  }

  /// Returns the node that produces `name`; nothing for inputs and
  /// initializers.
  std::optional<unsigned> getProducer(StringRef name) const {
    auto found = producers.find(name);
    return found == producers.end() ? std::nullopt
                                    : std::optional(found->second);
  }

  /// Whether `name` is an input, an initializer or a value of an enclosing
  /// graph.
  bool isGiven(StringRef name) const {
    return given.contains(name) || (isOuter && isOuter(name));
  }

  LogicalResult checkReads() {
    for (const auto &output : graph.output())
      if (!isGiven(output.name()) && !getProducer(output.name()))
        return model.emitError("output " + quote(output.name()))
               << "is defined by no node";
    for (auto [index, node] : llvm::enumerate(graph.node())) {
      std::string missing;
      forEachRead(node, [&](const std::string &name) {
        if (!name.empty() && !getProducer(name) && !isGiven(name))
          missing = name;
      });
      if (!missing.empty())
        return mlir::emitError(getLoc(index))
               << "reads " << quote(missing) << ", which nothing defines"
               << suggest(missing);
    }
    return success();
  }

  LogicalResult checkOutputs() {
    llvm::StringSet<> outputs;
    for (const auto &output : graph.output())
      if (!outputs.insert(output.name()).second)
        return model.emitUnsupported("output " + quote(output.name()))
               << "is listed twice";
    return success();
  }

  /// Finds the nodes that the outputs depend on.
  void findLive() {
    live.resize(graph.node_size());
    SmallVector<unsigned> worklist;
    auto visit = [&](StringRef name) {
      if (std::optional<unsigned> producer = getProducer(name);
          producer && !live.test(*producer)) {
        live.set(*producer);
        worklist.push_back(*producer);
      }
    };
    for (const auto &output : graph.output())
      visit(output.name());
    while (!worklist.empty())
      forEachRead(graph.node(worklist.pop_back_val()), visit);
  }

  /// Returns all nodes, producers first.
  FailureOr<SmallVector<unsigned>> sort() {
    std::vector<SmallVector<unsigned>> users(graph.node_size());
    std::vector<unsigned> missing(graph.node_size());
    std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
    for (unsigned index = 0; index < users.size(); ++index) {
      forEachRead(graph.node(index), [&](const std::string &name) {
        if (std::optional<unsigned> producer = getProducer(name)) {
          users[*producer].push_back(index);
          ++missing[index];
        }
      });
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
    if (order.size() == users.size())
      return order;
    live.resize(users.size(), true);
    for (unsigned index : order)
      live.reset(index);
    return reportCycle();
  }

  /// ONNX requires producers first; programs that rely on it reject other
  /// files.
  void warnUnlessSorted(ArrayRef<unsigned> order) const {
    const unsigned *late =
        std::adjacent_find(order.begin(), order.end(), std::greater<>());
    if (late != order.end())
      mlir::emitWarning(getLoc(*late))
          << "comes in the file after a node that reads its result; the nodes "
             "were sorted";
  }

  /// Follows producers among the remaining nodes until one repeats, and reports
  /// the nodes between as a cycle.
  LogicalResult reportCycle() {
    SmallVector<unsigned> path;
    unsigned index = live.find_first();
    while (!llvm::is_contained(path, index)) {
      path.push_back(index);
      forEachRead(graph.node(path.back()), [&](const std::string &name) {
        if (std::optional<unsigned> producer = getProducer(name);
            producer && live.test(*producer))
          index = *producer;
      });
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
  function_ref<bool(StringRef)> isOuter;
  StringRef prefix;
  llvm::StringSet<> given; // Inputs and initializers.
  llvm::StringMap<unsigned> producers;
  llvm::BitVector live;
};
} // namespace

FailureOr<SmallVector<unsigned>>
mlir::binade::sortNodes(const Model &model, const ::onnx::GraphProto &graph,
                        function_ref<bool(StringRef)> isOuter,
                        StringRef prefix) {
  return NodeOrder(model, graph, isOuter, prefix).compute();
}
