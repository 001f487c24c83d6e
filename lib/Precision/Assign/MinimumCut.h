//===- MinimumCut.h - Minimum cut of a network ------------------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_ASSIGN_MINIMUMCUT_H
#define BINADE_LIB_PRECISION_ASSIGN_MINIMUMCUT_H

#include <cstdint>
#include <vector>

namespace mlir::binade {

/// A network of nodes between a source and a sink.
class MinimumCut {
public:
  /// A capacity that is greater than any minimum cut.
  static constexpr int64_t kUncut = int64_t(1) << 58;

  unsigned addNode() {
    balances.push_back(0);
    return balances.size() - 1;
  }
  /// Adds an edge, which is cut if `from` is on the source's side and `to` on
  /// the sink's.
  void addEdge(unsigned from, unsigned to, int64_t capacity) {
    // An edge and its opposite, added in a row, become one with both
    // capacities.
    if (!edges.empty() && edges.back().from == to && edges.back().to == from)
      edges.back().back += capacity;
    else
      edges.push_back({from, to, capacity, 0});
  }
  /// Adds the cost `source` if `node` is on the sink's side, and `sink` if it
  /// is on the source's.
  void addTerminal(unsigned node, int64_t source, int64_t sink) {
    // A cost that both sides share does not affect the cut.
    balances[node] += source - sink;
  }

  /// Returns for each node whether it is on the source's side of the minimum
  /// cut with the fewest nodes on that side.
  std::vector<bool> solve() const;

private:
  struct Edge {
    unsigned from, to;
    int64_t capacity, back;
  };

  std::vector<Edge> edges;
  /// For each node, how much more the sink's side costs than the source's.
  std::vector<int64_t> balances;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_ASSIGN_MINIMUMCUT_H
