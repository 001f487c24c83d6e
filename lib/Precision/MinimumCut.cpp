//===- MinimumCut.cpp - The cheapest way to part a network ----------------===//
// By Boost's maximum flow of Boykov and Kolmogorov, which is fast on shallow
// networks such as those of Binade.
//===----------------------------------------------------------------------===//

#include "MinimumCut.h"
#include <algorithm>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>

using namespace mlir::binade;

namespace {
struct Arc {
  unsigned from, to;
  int64_t capacity;
  size_t reverse;
};
} // namespace

/// All arcs with their reverse ones, by where they start.
static std::vector<Arc> sortArcs(std::vector<Arc> arcs, unsigned nodes) {
  std::vector<size_t> next(nodes + 1), place(arcs.size());
  for (const Arc &arc : arcs)
    ++next[arc.from + 1];
  for (unsigned node = 0; node < nodes; ++node)
    next[node + 1] += next[node];
  for (size_t i = 0; i < arcs.size(); ++i)
    place[i] = next[arcs[i].from]++;
  std::vector<Arc> sorted(arcs.size());
  for (size_t i = 0; i < arcs.size(); ++i) {
    sorted[place[i]] = arcs[i];
    sorted[place[i]].reverse = place[arcs[i].reverse];
  }
  return sorted;
}

std::vector<bool> MinimumCut::solve() const {
  const unsigned source = nodes, sink = nodes + 1;
  std::vector<Arc> arcs;
  auto add = [&](unsigned from, unsigned to, int64_t capacity, int64_t back) {
    arcs.push_back({from, to, capacity, arcs.size() + 1});
    arcs.push_back({to, from, back, arcs.size() - 1});
  };
  std::vector<std::pair<int64_t, int64_t>> ends(nodes);
  for (const Terminal &terminal : terminals) {
    ends[terminal.node].first += terminal.source;
    ends[terminal.node].second += terminal.sink;
  }
  for (unsigned node = 0; node < nodes; ++node) {
    auto [first, second] = ends[node];
    if (first > second)
      add(source, node, first - second, 0);
    else if (second > first)
      add(node, sink, second - first, 0);
  }
  for (const Edge &edge : edges)
    add(edge.from, edge.to, edge.capacity, 0);
  arcs = sortArcs(std::move(arcs), nodes + 2);

  using Graph =
      boost::compressed_sparse_row_graph<boost::directedS, boost::no_property,
                                         boost::no_property, boost::no_property,
                                         unsigned, size_t>;
  std::vector<std::pair<unsigned, unsigned>> ways;
  std::vector<int64_t> capacities, residuals(arcs.size());
  for (const Arc &arc : arcs) {
    ways.emplace_back(arc.from, arc.to);
    capacities.push_back(arc.capacity);
  }
  Graph graph(boost::edges_are_sorted, ways.begin(), ways.end(), nodes + 2);
  std::vector<Graph::edge_descriptor> descriptors, reverses;
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge)
    descriptors.push_back(*edge);
  for (const Arc &arc : arcs)
    reverses.push_back(descriptors[arc.reverse]);

  auto edgeIndex = get(boost::edge_index, graph);
  auto nodeIndex = get(boost::vertex_index, graph);
  std::vector<Graph::edge_descriptor> predecessors(nodes + 2);
  std::vector<boost::default_color_type> colors(nodes + 2);
  std::vector<long> distances(nodes + 2);
  auto onEdges = [&](auto &values) {
    return boost::make_iterator_property_map(values.begin(), edgeIndex);
  };
  auto onNodes = [&](auto &values) {
    return boost::make_iterator_property_map(values.begin(), nodeIndex);
  };
  boost::boykov_kolmogorov_max_flow(
      graph, onEdges(capacities), onEdges(residuals), onEdges(reverses),
      onNodes(predecessors), onNodes(colors), onNodes(distances), nodeIndex,
      source, sink);
  std::vector<bool> side(nodes);
  for (unsigned node = 0; node < nodes; ++node)
    side[node] = colors[node] == boost::black_color;
  return side;
}
