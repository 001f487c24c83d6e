//===- Painting.cpp - An op follows what it touches -----------------------===//
// The steps of TensorFlow's auto_mixed_precision.cc that speak of what a
// training step has: no lists of tensors, no loops, no reference variables.
//===----------------------------------------------------------------------===//

#include "binade/Precision/Assigner.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// A set of nodes that grows along edges; each remembers whence it was reached.
class Region {
public:
  explicit Region(size_t size) : origins(size, kOutside) {}

  bool contains(unsigned node) const { return origins[node] != kOutside; }
  /// The neighbour that `node` was reached from; itself for a root.
  unsigned getOrigin(unsigned node) const { return origins[node]; }

  bool insert(unsigned node, unsigned origin) {
    if (contains(node))
      return false;
    origins[node] = origin;
    return true;
  }

private:
  static constexpr unsigned kOutside = ~0u;
  std::vector<unsigned> origins;
};

enum Direction { Inputs = 1, Readers = 2, Both = Inputs | Readers };

/// One run over one graph.
class Painter {
public:
  explicit Painter(const PrecisionGraph &graph)
      : graph(graph), size(graph.getNodes().size()) {
    for (const PrecisionNode &node : graph.getNodes())
      classes.push_back(getClass(node, graph.getPolicy()));
  }

  std::vector<Choice> paint() const {
    Region denied = spreadDeny();
    Region allowed = joinAllow(denied);
    Region beside = allowed;
    grow(beside, Both, [&](unsigned node) {
      return classes[node] == PrecisionClass::Clear && !denied.contains(node);
    });
    const Policy &policy = graph.getPolicy();
    std::vector<Choice> choices;
    for (unsigned i = 0; i < size; ++i)
      if (classes[i] == PrecisionClass::Allow)
        choices.push_back({policy.narrow, "", {}});
      else if (allowed.contains(i))
        choices.push_back({policy.narrow, "lies between allow ops, behind",
                           getValue(allowed.getOrigin(i))});
      else if (beside.contains(i))
        choices.push_back({policy.narrow, "moves what is narrow beside",
                           getValue(beside.getOrigin(i))});
      else if (denied.contains(i) && classes[i] != PrecisionClass::Deny)
        choices.push_back({policy.wide, "follows a deny op through",
                           getValue(denied.getOrigin(i))});
      else if (classes[i] == PrecisionClass::Infer ||
               classes[i] == PrecisionClass::Clear)
        choices.push_back({policy.wide, "lies not between allow ops", {}});
      else
        choices.push_back({policy.wide, "", {}});
    return choices;
  }

private:
  /// A format that the policy settles is a border like an op of no list, or a
  /// seed like an allow op.
  static PrecisionClass getClass(const PrecisionNode &node,
                                 const Policy &policy) {
    if (!node.compute)
      return node.precisionClass;
    return node.compute == policy.narrow ? PrecisionClass::Allow
                                         : PrecisionClass::Unlisted;
  }

  Value getValue(unsigned node) const {
    return graph.getNodes()[node].op->getResult(0);
  }

  Region getClassRegion(ArrayRef<PrecisionClass> members) const {
    Region region(size);
    for (unsigned i = 0; i < size; ++i)
      if (llvm::is_contained(members, classes[i]))
        region.insert(i, i);
    return region;
  }

  /// Adds what can be reached from `region` through nodes that `enters` lets
  /// in.
  void grow(Region &region, Direction direction,
            function_ref<bool(unsigned)> enters) const {
    std::vector<unsigned> open;
    for (unsigned i = 0; i < size; ++i)
      if (region.contains(i))
        open.push_back(i);
    auto visit = [&](unsigned from, unsigned to) {
      if (!region.contains(to) && enters(to)) {
        region.insert(to, from);
        open.push_back(to);
      }
    };
    for (size_t next = 0; next < open.size(); ++next) {
      unsigned node = open[next];
      if (direction & Inputs)
        for (const PrecisionInput &input : graph.getInputs(node))
          if (input.producer)
            visit(node, *input.producer);
      if (direction & Readers)
        for (unsigned reader : graph.getReaders(node))
          visit(node, reader);
    }
  }

  /// Deny, and forward from it all that leads to a deny or infer op through
  /// clear ops: a tail of clear ops stays clear.
  Region spreadDeny() const {
    Region upstream =
        getClassRegion({PrecisionClass::Deny, PrecisionClass::Infer});
    grow(upstream, Inputs,
         [&](unsigned node) { return classes[node] == PrecisionClass::Clear; });
    Region denied = getClassRegion(PrecisionClass::Deny);
    grow(denied, Readers,
         [&](unsigned node) { return upstream.contains(node); });
    return denied;
  }

  /// Allow, and the infer and clear ops on the ways from one to another.
  Region joinAllow(const Region &denied) const {
    Region downstream = getClassRegion(PrecisionClass::Allow);
    grow(downstream, Readers, [&](unsigned node) {
      return (classes[node] == PrecisionClass::Infer ||
              classes[node] == PrecisionClass::Clear) &&
             !denied.contains(node);
    });
    Region upstream = getClassRegion(PrecisionClass::Allow);
    grow(upstream, Inputs,
         [&](unsigned node) { return downstream.contains(node); });
    return upstream;
  }

  const PrecisionGraph &graph;
  unsigned size;
  std::vector<PrecisionClass> classes;
};

class Painting : public Assigner {
public:
  std::vector<Choice> assign(const PrecisionGraph &graph) const override {
    return Painter(graph).paint();
  }
};
} // namespace

std::unique_ptr<Assigner> mlir::binade::createPainting() {
  return std::make_unique<Painting>();
}
