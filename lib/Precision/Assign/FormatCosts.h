//===- FormatCosts.h - formats of least cost --------------------*- C++ -*-===//
//
// The problem that the assigner `cut` solves, without a word of MLIR: each node
// has a format, at a price of its own; each value costs a cast for every format
// other than its producer's in which it is read.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_PRECISION_ASSIGN_FORMATCOSTS_H
#define BINADE_LIB_PRECISION_ASSIGN_FORMATCOSTS_H

#include <cstdint>
#include <optional>
#include <span>
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

  /// Makes room for as many.
  void reserve(unsigned nodes, unsigned values);

  /// `prices` has one entry for each format.
  void addNode(std::span<const Cost> prices);

  /// A value has the format of the node that makes it, or else `format`; each
  /// of `readers`, which differ, reads it in its own. `casts` are the prices,
  /// from format * formats + to.
  void addValue(std::optional<unsigned> producer, unsigned format,
                std::span<const unsigned> readers, std::span<const Cost> casts);

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
  class Move;

  struct Value {
    std::optional<unsigned> producer;
    unsigned format;
    /// Into the readers of all values.
    size_t firstReader, numReaders;

    unsigned getFormat(const std::vector<unsigned> &choice) const {
      return producer ? choice[*producer] : format;
    }
  };
  std::span<const unsigned> getReaders(const Value &value) const {
    return {readers.data() + value.firstReader, value.numReaders};
  }
  Cost getCast(const Value &value, unsigned from, unsigned to) const {
    size_t number = &value - values.data();
    return from == to ? 0 : casts[(number * formats + from) * formats + to];
  }

  unsigned formats, chosen;
  std::vector<Cost> prices, casts;
  std::vector<Value> values;
  std::vector<unsigned> readers;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_ASSIGN_FORMATCOSTS_H
