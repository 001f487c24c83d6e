//===- RankLedger.cpp - The memory of one rank of many --------------------===//

#include "RankLedger.h"
#include "binade/Container/ExchangeLayout.h"
#include "binade/Plan/ShardStates.h"
#include "llvm/Support/MathExtras.h"

using namespace ::binade::plan;
using ::binade::Plan;

llvm::StringRef getName(Sharding sharding) {
  return sharding == Sharding::None ? "none" : "zero1";
}

llvm::json::Object toJson(const RankLedger &rank) {
  llvm::json::Object ledger;
  for (auto [category, bytes] : rank.ledger)
    ledger[llvm::StringRef(name(category))] = bytes;
  ledger["exchange"] = rank.exchange;
  ledger["gather"] = rank.gather;
  return ledger;
}

std::uint64_t RankLedger::getBytes() const {
  std::uint64_t bytes = exchange + gather;
  for (auto [category, part] : ledger)
    bytes += part;
  return bytes;
}

static std::uint64_t countParameterElements(const Plan &plan) {
  std::uint64_t elements = 0;
  for (const Port &port : plan.ports)
    if (const Buffer &buffer = plan.buffers[port.buffer];
        port.role == Role::Parameter)
      elements += buffer.bytes / byteSize(buffer.dtype);
  return elements;
}

/// Returns the bytes of the buffers that the transfers of `elements` gradients
/// send from and receive to, other than the gradients themselves.
static std::uint64_t countTransfers(std::uint64_t elements,
                                    const RankSettings &settings) {
  constexpr std::uint64_t kBlock = ::binade::ExchangeLayout::kBlock;
  auto ranks = static_cast<std::uint64_t>(settings.ranks);
  // Codes of each rank's part, which are whole blocks, are sent and received;
  // then the sums of the own part are sent and those of all parts received.
  std::uint64_t part = llvm::divideCeil(elements, kBlock * ranks) * kBlock;
  std::uint64_t sums = sizeof(float) * part;
  std::uint64_t scales = sizeof(float) * part / kBlock;
  if (settings.exchange == "bf16")
    return 2 * ranks * 2 * part + sums + ranks * sums;
  if (settings.exchange == "e4m3")
    return 2 * ranks * (part + scales) + sums + ranks * sums;
  if (settings.exchange == "exact") // Maxima of blocks, and sums in I64.
    return sizeof(std::int32_t) * llvm::divideCeil(elements, kBlock) +
           sizeof(std::int64_t) * elements;
  return 0; // f32: in place.
}

RankLedger countRank(const Plan &plan, const RankSettings &settings) {
  RankLedger rank{.ledger = plan.ledger};
  if (settings.ranks <= 1)
    return rank;
  rank.exchange = countTransfers(countParameterElements(plan), settings);
  if (settings.sharding == Sharding::None)
    return rank;
  std::uint64_t sharded = 0;
  for (const auto &parameter : ::binade::listShardedParameters(plan))
    sharded += parameter.stateBytes;
  if (sharded == 0)
    return rank;
  auto [parameters, states] = ::binade::findLargestShard(plan, settings.ranks);
  rank.ledger[Category::State] -= sharded - states;
  auto ranks = static_cast<std::uint64_t>(settings.ranks);
  rank.gather = ranks * ::binade::getGatheredPiece(parameters, ranks);
  return rank;
}
