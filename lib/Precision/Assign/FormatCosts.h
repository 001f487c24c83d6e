//===- FormatCosts.h - Formats of minimum cost ------------------*- C++ -*-===//
//
// The optimization problem that the assigner `cut` solves, independent of MLIR.
// Each node has a format, with a cost of its own. Each value costs one cast for
// every format other than its producer's in which it is read.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_PRECISION_ASSIGN_FORMATCOSTS_H
#define BINADE_LIB_PRECISION_ASSIGN_FORMATCOSTS_H

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mlir::binade {

/// Costs are integers, in picoseconds, so that sums are exact.
using Cost = int64_t;
/// The cost of a format that a node must not have; greater than any sum of
/// others.
inline constexpr Cost kForbidden = Cost(1) << 52;

class FormatCosts {
public:
  /// Formats are numbered from 0. Nodes choose among the first `chosen`. The
  /// other formats belong to values without a producer, and to nodes with a
  /// fixed format.
  FormatCosts(unsigned formats, unsigned chosen)
      : formats(formats), chosen(chosen) {}

  /// Reserves memory for this many nodes and values.
  void reserve(unsigned nodes, unsigned values);

  /// Adds a node; `prices` has one entry per format.
  void addNode(std::span<const Cost> prices);

  /// Adds a value in the format of the node `producer`, or in `format` without
  /// a producer. The nodes `readers`, all different, each read it in their own
  /// format. `casts` are the costs of casts, indexed by from * formats + to.
  void addValue(std::optional<unsigned> producer, unsigned format,
                std::span<const unsigned> readers, std::span<const Cost> casts);

  unsigned getNumNodes() const { return prices.size() / formats; }
  Cost getPrice(unsigned node, unsigned format) const {
    return prices[node * formats + format];
  }

  /// Returns the total cost of a choice of formats.
  Cost evaluate(const std::vector<unsigned> &choice) const;

  /// Returns a choice of minimum cost. With two formats to choose from, the
  /// result is exact, and of equal choices the one with the fewest nodes in
  /// format 1. With more formats, changing any set of nodes to one format does
  /// not make the result cheaper, except by saving casts of a value to a third
  /// format (expansion moves: Boykov, Veksler, Zabih, "Fast Approximate Energy
  /// Minimization via Graph Cuts", 2001).
  std::vector<unsigned> minimize() const;

private:
  class Move;

  struct Value {
    std::optional<unsigned> producer;
    unsigned format;
    /// A range of the readers of all values.
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
