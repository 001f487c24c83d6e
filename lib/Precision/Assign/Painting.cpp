//===- Painting.cpp - Grappler's painting ---------------------------------===//
//
// An op is narrow between two `allow` ops. Implements the parts of TensorFlow's
// auto_mixed_precision.cc that apply to a training step, which has no lists of
// tensors, loops or reference variables.
//
//===----------------------------------------------------------------------===//

#include "binade/Precision/Assigner.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// A set of nodes that grows along edges. Each node records its predecessor.
class Region {
public:
  explicit Region(size_t size) : origins(size, kOutside) {}

  bool contains(unsigned node) const { return origins[node] != kOutside; }
  /// Returns the neighbour from which `node` was reached; itself for a root.
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

/// The painting of one graph.
class Painter {
public:
  explicit Painter(const PrecisionGraph &graph)
      : graph(graph), size(graph.getNodes().size()) {
    for (const PrecisionNode &node : graph.getNodes())
      classes.push_back(getClass(node, graph.getPolicy()));
  }

  std::vector<Choice> paint() const {
    Region denied = propagateDeny();
    Region allowed = connectAllow(denied);
    Region adjacent = allowed;
    grow(adjacent, Both, [&](unsigned node) {
      return classes[node] == PrecisionClass::Clear && !denied.contains(node);
    });
    const Policy &policy = graph.getPolicy();
    std::vector<Choice> choices;
    for (unsigned i = 0; i < size; ++i)
      if (classes[i] == PrecisionClass::Allow)
        choices.push_back({policy.narrow, "", {}});
      else if (allowed.contains(i))
        choices.push_back({policy.narrow, "is between allow ops, after",
                           getValue(allowed.getOrigin(i))});
      else if (adjacent.contains(i))
        choices.push_back({policy.narrow, "moves narrow values, next to",
                           getValue(adjacent.getOrigin(i))});
      else if (denied.contains(i) && classes[i] != PrecisionClass::Deny)
        choices.push_back({policy.wide, "follows a deny op through",
                           getValue(denied.getOrigin(i))});
      else if (classes[i] == PrecisionClass::Infer ||
               classes[i] == PrecisionClass::Clear)
        choices.push_back({policy.wide, "is not between allow ops", {}});
      else
        choices.push_back({policy.wide, "", {}});
    return choices;
  }

private:
  /// Returns the class of a node. A format that the policy fixes stops
  /// propagation like an unlisted op, or starts it like an allow op.
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

  /// Adds the nodes that can be reached from `region` through nodes for which
  /// `enters` holds.
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

  /// Returns the deny ops, and the ops after them that lead to a deny or infer
  /// op through clear ops. Clear ops at the end of such a path stay clear.
  Region propagateDeny() const {
    Region upstream =
        getClassRegion({PrecisionClass::Deny, PrecisionClass::Infer});
    grow(upstream, Inputs,
         [&](unsigned node) { return classes[node] == PrecisionClass::Clear; });
    Region denied = getClassRegion(PrecisionClass::Deny);
    grow(denied, Readers,
         [&](unsigned node) { return upstream.contains(node); });
    return denied;
  }

  /// Returns the allow ops, and the infer and clear ops on paths between them.
  Region connectAllow(const Region &denied) const {
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
