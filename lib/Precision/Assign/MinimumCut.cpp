//===- MinimumCut.cpp - Minimum cut of a network --------------------------===//
//
// Uses Boost's maximum flow by Boykov and Kolmogorov, which is fast on shallow
// networks such as Binade's.
//
//===----------------------------------------------------------------------===//

#include "MinimumCut.h"
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <numeric>

using namespace mlir::binade;

namespace {
using Graph =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property,
                                       boost::no_property, boost::no_property,
                                       unsigned, unsigned>;

/// Pairs of an arc and its reverse, sorted by their start.
struct Arcs {
  std::vector<std::pair<unsigned, unsigned>> ends;
  std::vector<int64_t> capacities;
  std::vector<Graph::edge_descriptor> reverses;
};
} // namespace

std::vector<bool> MinimumCut::solve() const {
  const unsigned nodes = balances.size(), source = nodes, sink = nodes + 1;
  auto forEach = [&](auto visit) {
    for (unsigned node = 0; node < nodes; ++node)
      if (int64_t balance = balances[node]; balance > 0)
        visit(source, node, balance, 0);
      else if (balance < 0)
        visit(node, sink, -balance, 0);
    for (const Edge &edge : edges)
      visit(edge.from, edge.to, edge.capacity, edge.back);
  };
  std::vector<unsigned> next(nodes + 3);
  forEach([&](unsigned from, unsigned to, int64_t, int64_t) {
    ++next[from + 1];
    ++next[to + 1];
  });
  std::partial_sum(next.begin(), next.end(), next.begin());
  const unsigned count = next.back();
  Arcs arcs{std::vector<std::pair<unsigned, unsigned>>(count),
            std::vector<int64_t>(count),
            std::vector<Graph::edge_descriptor>(count)};
  forEach([&](unsigned from, unsigned to, int64_t capacity, int64_t back) {
    unsigned there = next[from]++, here = next[to]++;
    arcs.ends[there] = {from, to};
    arcs.ends[here] = {to, from};
    arcs.capacities[there] = capacity;
    arcs.capacities[here] = back;
    arcs.reverses[there] = {to, here};
    arcs.reverses[here] = {from, there};
  });
  Graph graph(boost::edges_are_sorted, arcs.ends.begin(), arcs.ends.end(),
              nodes + 2);

  auto edgeIndex = get(boost::edge_index, graph);
  auto nodeIndex = get(boost::vertex_index, graph);
  std::vector<int64_t> residuals(count);
  std::vector<Graph::edge_descriptor> predecessors(nodes + 2);
  std::vector<boost::default_color_type> colors(nodes + 2);
  std::vector<unsigned> distances(nodes + 2);
  auto onEdges = [&](auto &values) {
    return boost::make_iterator_property_map(values.begin(), edgeIndex);
  };
  auto onNodes = [&](auto &values) {
    return boost::make_iterator_property_map(values.begin(), nodeIndex);
  };
  boost::boykov_kolmogorov_max_flow(
      graph, onEdges(arcs.capacities), onEdges(residuals),
      onEdges(arcs.reverses), onNodes(predecessors), onNodes(colors),
      onNodes(distances), nodeIndex, source, sink);
  std::vector<bool> side(nodes);
  for (unsigned node = 0; node < nodes; ++node)
    side[node] = colors[node] == boost::black_color;
  return side;
}
