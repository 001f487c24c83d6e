//===- ShardStates.h - Optimizer states of one rank ------------*- C++ -*-===//
// Ranks that hold equal sums of gradients can shard the optimizer states (ZeRO
// stage 1): each updates a shard of the parameters, needs only the states of
// this shard, and gets the parameters that the others have updated.
//===----------------------------------------------------------------------===//

#ifndef BINADE_PLAN_SHARDSTATES_H
#define BINADE_PLAN_SHARDSTATES_H

#include "binade/Plan/Plan.h"

namespace binade {

/// The elements of tensors, one after the other, of which each rank of a group
/// has consecutive ones, with states of about equal size.
class ElementSharding {
public:
  struct Tensor {
    std::int64_t elements = 0;
    std::int64_t block = 1;  ///< Ranks have multiples of it, or the end.
    std::uint64_t bytes = 0; ///< Of its states; not 0.
  };
  explicit ElementSharding(std::vector<Tensor> tensors);

  std::int64_t getStart(std::size_t tensor) const { return starts[tensor]; }
  std::int64_t getTotal() const { return starts.back(); }
  /// Returns the first element of `rank`, or for `rank` = `size` the total.
  std::int64_t findShardStart(std::int64_t rank, std::int64_t size) const;

private:
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> starts;  ///< Of tensors; then the total.
  std::vector<std::uint64_t> states; ///< Bytes before a tensor; then all.
};

/// Returns the plan of one rank of a group. Its launches that update parameters
/// have the items of the rank, and its states the elements that these access. A
/// gather of parameters follows the updates.
///
/// Ranks have consecutive blocks of `Launch::grain` elements of all sharded
/// parameters, whose states have about equally many bytes. This depends only on
/// `plan` and `shard`.
/// States that other records access, or whose initial values are stored, stay
/// whole, and all ranks update their parameters. `plan` has to be valid and
/// for all ranks; for a group of one, the result is `plan`.
Plan shardStates(Plan plan, plan::StateShard shard);

/// A parameter whose states `shardStates` shards.
struct ShardedParameter {
  std::uint32_t buffer = 0; ///< That of the parameter.
  std::int64_t elements = 0;
  std::int64_t block = 1; ///< Shards begin at multiples of it.
  std::uint64_t stateBytes = 0;
  std::size_t record = 0; ///< The launch of the step that updates it.
};
/// Lists the parameters whose states `shardStates` shards, in the order of
/// the step. The plan may have no exchange.
std::vector<ShardedParameter> listShardedParameters(const Plan &plan);

/// The bytes of the elements that a rank updates, and of their states.
struct ShardBytes {
  std::uint64_t parameters = 0, states = 0;
};
/// Returns the largest number of bytes of each that one of `ranks` ranks has,
/// with states that `shardStates` shards.
ShardBytes findLargestShard(const Plan &plan, std::int64_t ranks);

/// How many bytes of states a plan has.
struct StateBytes {
  std::uint64_t own = 0;   ///< In its memory.
  std::uint64_t whole = 0; ///< Of all ranks, each element once.
  /// In its memory and in that of all other ranks, too.
  std::uint64_t repeated = 0;
};
StateBytes countStateBytes(const Plan &plan);

} // namespace binade

#endif // BINADE_PLAN_SHARDSTATES_H
