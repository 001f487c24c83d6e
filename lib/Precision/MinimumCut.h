//===- MinimumCut.h - the cheapest way to part a network --------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MINIMUMCUT_H
#define BINADE_LIB_PRECISION_MINIMUMCUT_H

#include <cstdint>
#include <vector>

namespace mlir::binade {

/// A network of nodes between a source and a sink.
class MinimumCut {
public:
  /// A capacity that no minimum cut pays.
  static constexpr int64_t kUncut = int64_t(1) << 58;

  explicit MinimumCut(unsigned nodes) : nodes(nodes) {}

  unsigned addNode() { return nodes++; }
  /// Cut when `from` is on the source's side and `to` on the sink's.
  void addEdge(unsigned from, unsigned to, int64_t capacity) {
    edges.push_back({from, to, capacity});
  }
  /// `source` is paid when `node` is on the sink's side, `sink` when it is on
  /// the source's.
  void addTerminal(unsigned node, int64_t source, int64_t sink) {
    terminals.push_back({node, source, sink});
  }

  /// For each node whether it is on the source's side of the minimum cut with
  /// the fewest nodes there.
  std::vector<bool> solve() const;

private:
  struct Edge {
    unsigned from, to;
    int64_t capacity;
  };
  struct Terminal {
    unsigned node;
    int64_t source, sink;
  };

  unsigned nodes;
  std::vector<Edge> edges;
  std::vector<Terminal> terminals;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MINIMUMCUT_H
