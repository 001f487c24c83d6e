//===- FormatCosts.h - formats of least cost --------------------*- C++ -*-===//
//
// The problem that the assigner `cut` solves, without a word of MLIR: each node
// has a format, at a price of its own; each value costs a cast for every format
// other than its producer's in which it is read.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_PRECISION_FORMATCOSTS_H
#define BINADE_LIB_PRECISION_FORMATCOSTS_H

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::binade {

/// Costs are whole numbers, picoseconds, so that sums are exact.
using Cost = int64_t;
/// The price of a format that a node may not have. No sum of others comes near.
inline constexpr Cost kForbidden = Cost(1) << 52;

class FormatCosts {
public:
  /// Formats count from 0. Nodes may choose among the first `chosen`; values of
  /// the others come from outside, or from nodes that have one of these alone.
  FormatCosts(unsigned formats, unsigned chosen)
      : formats(formats), chosen(chosen) {}

  /// `prices` has one entry for each format.
  unsigned addNode(const std::vector<Cost> &prices);

  struct Value {
    /// The node whose format it has; else `format`.
    std::optional<unsigned> producer;
    unsigned format = 0;
    /// Nodes that read it in their formats.
    std::vector<unsigned> readers;
    /// Formats in which others read it.
    std::vector<unsigned> read;
    /// Price of a cast, from format * formats + to.
    std::vector<Cost> casts;
  };
  void addValue(Value value) { values.push_back(std::move(value)); }

  unsigned getNumNodes() const { return prices.size() / formats; }
  Cost getPrice(unsigned node, unsigned format) const {
    return prices[node * formats + format];
  }

  /// What a choice of formats costs.
  Cost evaluate(const std::vector<unsigned> &choice) const;

  /// A choice of least cost. With two formats to choose from it is exact, and
  /// of equal choices the one with the fewest nodes in format 1. With more, no
  /// change of any set of nodes to one format makes it cheaper (expansion
  /// moves: Boykov, Veksler, Zabih, "Fast Approximate Energy Minimization via
  /// Graph Cuts", 2001), but for moves that save casts of a value to third
  /// formats.
  std::vector<unsigned> minimize() const;

private:
  std::vector<unsigned> expand(const std::vector<unsigned> &choice,
                               unsigned format) const;

  unsigned formats, chosen;
  std::vector<Cost> prices;
  std::vector<Value> values;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_FORMATCOSTS_H
