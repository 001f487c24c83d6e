//===- FormatCosts.cpp - Formats of least cost ----------------------------===//
// A move offers one format to all nodes at once: each takes it or keeps its
// own. The best move is a minimum cut; nodes on the source's side take the
// format.
//===----------------------------------------------------------------------===//

#include "FormatCosts.h"
#include "MinimumCut.h"
#include <algorithm>
#include <cassert>

using namespace mlir::binade;

unsigned FormatCosts::addNode(const std::vector<Cost> &added) {
  assert(added.size() == formats && "one price for each format");
  prices.insert(prices.end(), added.begin(), added.end());
  return getNumNodes() - 1;
}

Cost FormatCosts::evaluate(const std::vector<unsigned> &choice) const {
  Cost sum = 0;
  for (unsigned node = 0; node < getNumNodes(); ++node)
    sum += getPrice(node, choice[node]);
  std::vector<bool> read(formats);
  for (const Value &value : values) {
    std::fill(read.begin(), read.end(), false);
    for (unsigned reader : value.readers)
      read[choice[reader]] = true;
    for (unsigned format : value.read)
      read[format] = true;
    unsigned from = value.producer ? choice[*value.producer] : value.format;
    for (unsigned to = 0; to < formats; ++to)
      if (read[to] && to != from)
        sum += value.casts[from * formats + to];
  }
  return sum;
}

namespace {
/// The network of one move.
class Move {
public:
  Move(unsigned formats, const std::vector<unsigned> &choice, unsigned format)
      : formats(formats), choice(choice), format(format), cut(choice.size()),
        bound(choice.size()) {}

  void addPrices(unsigned node, Cost taken, Cost kept) {
    bound[node] = bound[node] || taken >= kForbidden;
    // What both cost alike moves nothing.
    Cost common = std::min(taken, kept);
    cut.addTerminal(node, kept - common, taken - common);
  }

  void addValue(const FormatCosts::Value &value) {
    auto price = [&](unsigned from, unsigned to) {
      return from == to ? 0 : value.casts[from * formats + to];
    };
    unsigned from = value.producer ? choice[*value.producer] : value.format;
    bool mayTake = value.producer && from != format;
    for (unsigned to = 0; to < formats; ++to) {
      if (to == format)
        continue;
      // Read in `to` by those that keep it, and perhaps by others always.
      Cost before = price(from, to), after = price(format, to);
      bool always = std::count(value.read.begin(), value.read.end(), to) > 0;
      std::vector<unsigned> keepers;
      for (unsigned reader : value.readers)
        if (choice[reader] == to) {
          keepers.push_back(reader);
          always |= bound[reader];
        }
      if (always && mayTake)
        addPrices(*value.producer, after, before);
      else if (keepers.empty() || always)
        continue;
      else if (!mayTake)
        addIfAnyKeeps({}, keepers, before);
      else {
        // A cast that gets cheaper when its producer takes the format is
        // charged in full: its saving is not submodular.
        addIfAnyKeeps({}, keepers, before);
        if (after > before)
          addIfAnyKeeps(value.producer, keepers, after - before);
      }
    }
    addReadInFormat(value, price(from, format), mayTake);
  }

  std::vector<unsigned> solve() {
    std::vector<bool> taken = cut.solve();
    std::vector<unsigned> moved = choice;
    for (unsigned node = 0; node < moved.size(); ++node)
      if (taken[node])
        moved[node] = format;
    return moved;
  }

private:
  /// The cast of a value into the format, unless its producer takes that too.
  void addReadInFormat(const FormatCosts::Value &value, Cost price,
                       bool mayTake) {
    if (price == 0)
      return;
    bool always = std::count(value.read.begin(), value.read.end(), format) > 0;
    std::vector<unsigned> takers;
    for (unsigned reader : value.readers)
      if (choice[reader] == format)
        always = true;
      else
        takers.push_back(reader);
    if (always) {
      if (mayTake)
        addPrices(*value.producer, 0, price);
    } else if (!takers.empty()) {
      addIfAnyTakes(mayTake ? value.producer : std::nullopt, takers, price);
    }
  }

  /// `cost` if one of `readers` keeps its format, and `producer`, where there
  /// is one, takes the new one.
  void addIfAnyKeeps(std::optional<unsigned> producer,
                     const std::vector<unsigned> &readers, Cost cost) {
    unsigned any = cut.addNode();
    if (producer)
      cut.addEdge(*producer, any, cost);
    else
      cut.addTerminal(any, cost, 0);
    for (unsigned reader : readers)
      cut.addEdge(any, reader, MinimumCut::kUncut);
  }

  /// `cost` if one of `readers` takes the new format, and `producer`, where
  /// there is one, keeps its own.
  void addIfAnyTakes(std::optional<unsigned> producer,
                     const std::vector<unsigned> &readers, Cost cost) {
    unsigned any = cut.addNode();
    if (producer)
      cut.addEdge(any, *producer, cost);
    else
      cut.addTerminal(any, 0, cost);
    for (unsigned reader : readers)
      cut.addEdge(reader, any, MinimumCut::kUncut);
  }

  unsigned formats;
  const std::vector<unsigned> &choice;
  unsigned format;
  MinimumCut cut;
  /// Nodes that may not take the format.
  std::vector<bool> bound;
};
} // namespace

std::vector<unsigned> FormatCosts::expand(const std::vector<unsigned> &choice,
                                          unsigned format) const {
  Move move(formats, choice, format);
  for (unsigned node = 0; node < getNumNodes(); ++node)
    if (choice[node] != format)
      move.addPrices(node, getPrice(node, format),
                     getPrice(node, choice[node]));
  for (const Value &value : values)
    move.addValue(value);
  return move.solve();
}

std::vector<unsigned> FormatCosts::minimize() const {
  // Each node starts in its first format that is not forbidden.
  std::vector<unsigned> best(getNumNodes());
  for (unsigned node = 0; node < best.size(); ++node)
    while (best[node] + 1 < formats && getPrice(node, best[node]) >= kForbidden)
      ++best[node];
  if (chosen == 2)
    return expand(best, 1);
  Cost cost = evaluate(best);
  for (bool improved = true; improved;) {
    improved = false;
    for (unsigned format = 0; format < chosen; ++format) {
      std::vector<unsigned> moved = expand(best, format);
      Cost less = evaluate(moved);
      if (less >= cost)
        continue;
      best = std::move(moved);
      cost = less;
      improved = true;
    }
  }
  return best;
}
