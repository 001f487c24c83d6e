//===- FormatCosts.cpp - Formats of minimum cost --------------------------===//
//
// Expansion moves: a move offers one format to all nodes at once, and each node
// takes it or keeps its own. The best move is a minimum cut; the nodes on the
// source's side take the format.
//
//===----------------------------------------------------------------------===//

#include "FormatCosts.h"
#include "MinimumCut.h"
#include <cassert>

using namespace mlir::binade;
using FormatChoice = std::vector<unsigned>;

void FormatCosts::reserve(unsigned nodes, unsigned numValues) {
  prices.reserve(size_t(nodes) * formats);
  values.reserve(numValues);
  casts.reserve(size_t(numValues) * formats * formats);
}

void FormatCosts::addNode(std::span<const Cost> added) {
  assert(added.size() == formats && "one price for each format");
  prices.insert(prices.end(), added.begin(), added.end());
}

void FormatCosts::addValue(std::optional<unsigned> producer, unsigned format,
                           std::span<const unsigned> added,
                           std::span<const Cost> priced) {
  assert(priced.size() == formats * formats && "one price for each cast");
  values.push_back({producer, format, readers.size(), added.size()});
  readers.insert(readers.end(), added.begin(), added.end());
  casts.insert(casts.end(), priced.begin(), priced.end());
}

Cost FormatCosts::evaluate(const FormatChoice &choice) const {
  Cost sum = 0;
  for (unsigned node = 0; node < getNumNodes(); ++node)
    sum += getPrice(node, choice[node]);
  std::vector<bool> read(formats);
  for (const Value &value : values) {
    read.assign(formats, false);
    for (unsigned reader : getReaders(value))
      read[choice[reader]] = true;
    for (unsigned to = 0; to < formats; ++to)
      if (read[to])
        sum += getCast(value, value.getFormat(choice), to);
  }
  return sum;
}

/// The network of one move. Excludes nodes that have the format already, or
/// that must not have it.
class FormatCosts::Move {
public:
  Move(const FormatCosts &costs, const FormatChoice &choice, unsigned format)
      : costs(costs), choice(choice), format(format), movers(choice.size()) {
    for (unsigned node = 0; node < choice.size(); ++node) {
      Cost taken = costs.getPrice(node, format);
      if (choice[node] == format || taken >= kForbidden)
        continue;
      movers[node] = cut.addNode();
      cut.addTerminal(*movers[node], costs.getPrice(node, choice[node]), taken);
    }
    for (const Value &value : costs.values) {
      for (unsigned to = 0; to < costs.formats; ++to)
        if (to != format)
          addReadAsKept(value, to);
      addReadAsTaken(value);
    }
  }

  FormatChoice solve() const {
    std::vector<bool> taken = cut.solve();
    FormatChoice moved = choice;
    for (unsigned node = 0; node < moved.size(); ++node)
      if (movers[node] && taken[*movers[node]])
        moved[node] = format;
    return moved;
  }

private:
  std::optional<unsigned> getMaker(const Value &value) const {
    return value.producer ? movers[*value.producer] : std::nullopt;
  }

  /// Collects the movable readers for which `reads` holds. Returns whether it
  /// also holds for a reader that cannot move.
  template <typename Reads> bool collect(const Value &value, Reads reads) {
    bool always = false;
    readers.clear();
    for (unsigned reader : costs.getReaders(value)) {
      if (!reads(reader))
        continue;
      if (movers[reader])
        readers.push_back(*movers[reader]);
      else
        always = true;
    }
    return always;
  }

  /// Adds the cost of the cast of a value to `to`, for readers that keep this
  /// format.
  void addReadAsKept(const Value &value, unsigned to) {
    bool always =
        collect(value, [&](unsigned reader) { return choice[reader] == to; });
    std::optional<unsigned> maker = getMaker(value);
    Cost before = costs.getCast(value, value.getFormat(choice), to);
    Cost after = costs.getCast(value, format, to);
    if (always) {
      if (maker)
        cut.addTerminal(*maker, before, after);
      return;
    }
    // If a cast gets cheaper when its producer takes the format, its old cost
    // is charged: the saving is not submodular.
    addIfAnyKeeps(std::nullopt, before);
    if (maker && after > before)
      addIfAnyKeeps(maker, after - before);
  }

  /// Adds the cost of the cast of a value to the format, unless its producer
  /// also takes the format.
  void addReadAsTaken(const Value &value) {
    Cost price = costs.getCast(value, value.getFormat(choice), format);
    if (price == 0)
      return;
    bool always = false;
    collect(value, [&](unsigned reader) {
      always |= choice[reader] == format;
      return choice[reader] != format;
    });
    std::optional<unsigned> maker = getMaker(value);
    if (!always)
      addIfAnyTakes(maker, price);
    else if (maker)
      cut.addTerminal(*maker, price, 0);
  }

  /// Charges `cost` if one of the readers keeps its format, and `producer`, if
  /// given, takes the new one.
  void addIfAnyKeeps(std::optional<unsigned> producer, Cost cost) {
    if (readers.empty() || cost == 0)
      return;
    unsigned any = readers.front();
    if (readers.size() > 1) {
      any = cut.addNode();
      for (unsigned reader : readers)
        cut.addEdge(any, reader, MinimumCut::kUncut);
    }
    if (producer)
      cut.addEdge(*producer, any, cost);
    else
      cut.addTerminal(any, cost, 0);
  }

  /// Charges `cost` if one of the readers takes the new format, and `producer`,
  /// if given, keeps its own.
  void addIfAnyTakes(std::optional<unsigned> producer, Cost cost) {
    if (readers.empty())
      return;
    unsigned any = readers.front();
    if (readers.size() > 1) {
      any = cut.addNode();
      for (unsigned reader : readers)
        cut.addEdge(reader, any, MinimumCut::kUncut);
    }
    if (producer)
      cut.addEdge(any, *producer, cost);
    else
      cut.addTerminal(any, 0, cost);
  }

  const FormatCosts &costs;
  const FormatChoice &choice;
  unsigned format;
  MinimumCut cut;
  /// The network's node for each node that may take the format.
  std::vector<std::optional<unsigned>> movers;
  /// The movable readers of the current value.
  std::vector<unsigned> readers;
};

FormatChoice FormatCosts::minimize() const {
  // Each node starts in its first format that is not forbidden.
  FormatChoice best(getNumNodes());
  for (unsigned node = 0; node < best.size(); ++node)
    while (best[node] + 1 < formats && getPrice(node, best[node]) >= kForbidden)
      ++best[node];
  if (chosen == 2)
    return Move(*this, best, 1).solve();
  Cost cost = evaluate(best);
  for (bool improved = true; improved;) {
    improved = false;
    for (unsigned format = 0; format < chosen; ++format) {
      FormatChoice moved = Move(*this, best, format).solve();
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
