//===- MinimumCut.h - the cheapest way to part a network --------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_ASSIGN_MINIMUMCUT_H
#define BINADE_LIB_PRECISION_ASSIGN_MINIMUMCUT_H

#include <cstdint>
#include <vector>

namespace mlir::binade {

/// A network of nodes between a source and a sink.
class MinimumCut {
public:
  /// A capacity that no minimum cut pays.
  static constexpr int64_t kUncut = int64_t(1) << 58;

  unsigned addNode() {
    balances.push_back(0);
    return balances.size() - 1;
  }
  /// Cut when `from` is on the source's side and `to` on the sink's.
  void addEdge(unsigned from, unsigned to, int64_t capacity) {
    // Two ways between the same nodes are one edge with both capacities.
    if (!edges.empty() && edges.back().from == to && edges.back().to == from)
      edges.back().back += capacity;
    else
      edges.push_back({from, to, capacity, 0});
  }
  /// `source` is paid when `node` is on the sink's side, `sink` when it is on
  /// the source's.
  void addTerminal(unsigned node, int64_t source, int64_t sink) {
    // What both sides cost alike moves nothing.
    balances[node] += source - sink;
  }

  /// For each node whether it is on the source's side of the minimum cut with
  /// the fewest nodes there.
  std::vector<bool> solve() const;

private:
  struct Edge {
    unsigned from, to;
    int64_t capacity, back;
  };

  std::vector<Edge> edges;
  /// For each node what the sink's side costs more than the source's.
  std::vector<int64_t> balances;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_ASSIGN_MINIMUMCUT_H
