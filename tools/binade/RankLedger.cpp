//===- RankLedger.cpp - The memory of one rank of many --------------------===//

#include "RankLedger.h"
#include "binade/Container/ExchangeLayout.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace binade::plan;
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

namespace {
/// The rows of a parameter, which ranks divide.
struct Rows {
  std::uint64_t count = 1, elements = 1, bytes = 0;

  /// Returns the elements, or bytes, of the largest part of `whole`.
  std::uint64_t getShard(std::uint64_t whole, std::uint64_t ranks) const {
    if (count == 0)
      return 0;
    std::uint64_t rows = llvm::divideCeil(count, ranks);
    return llvm::divideCeil(whole * rows, count);
  }
};
} // namespace

static llvm::StringMap<Rows> listParameters(const Plan &plan) {
  llvm::StringMap<Rows> found;
  for (const Port &port : plan.ports) {
    if (port.role != Role::Parameter)
      continue;
    const Buffer &buffer = plan.buffers[port.buffer];
    Rows rows{.bytes = buffer.bytes};
    if (!buffer.shape.empty())
      rows.count = static_cast<std::uint64_t>(buffer.shape.front());
    for (std::int64_t size : buffer.shape)
      rows.elements *= static_cast<std::uint64_t>(size);
    found[port.name] = rows;
  }
  return found;
}

/// Returns the parameter of a state, which is called `<state>/<parameter>`, or
/// `<state>/<parameter>.<part>` for parts such as scales; null if there is
/// none.
static const Rows *findParameter(const llvm::StringMap<Rows> &parameters,
                                 llvm::StringRef state) {
  for (llvm::StringRef name = state.split('/').second; !name.empty();
       name = name.contains('.') ? name.rsplit('.').first : "")
    if (auto found = parameters.find(name); found != parameters.end())
      return &found->second;
  return nullptr;
}

/// Returns the bytes of the states that a rank does not have.
static std::uint64_t countAbsentStates(const Plan &plan,
                                       const llvm::StringMap<Rows> &parameters,
                                       std::uint64_t ranks) {
  std::uint64_t absent = 0;
  for (const Port &port : plan.ports) {
    if (port.role != Role::State)
      continue;
    std::uint64_t bytes = plan.buffers[port.buffer].bytes;
    if (const Rows *rows = findParameter(parameters, port.name))
      absent += bytes - std::min(bytes, rows->getShard(bytes, ranks));
  }
  return absent;
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
  llvm::StringMap<Rows> parameters = listParameters(plan);
  std::uint64_t elements = 0, shards = 0, bytes = 0;
  auto ranks = static_cast<std::uint64_t>(settings.ranks);
  for (const auto &entry : parameters) {
    const Rows &rows = entry.second;
    elements += rows.elements;
    bytes += rows.bytes;
    shards += rows.getShard(rows.elements, ranks);
  }
  if (settings.sharding == Sharding::None) {
    rank.exchange = countTransfers(elements, settings);
    return rank;
  }
  constexpr std::uint64_t kBucket = 25 << 20; // Bytes, as PyTorch's DDP.
  rank.ledger[Category::State] -= countAbsentStates(plan, parameters, ranks);
  rank.exchange = sizeof(float) * shards +
                  std::min<std::uint64_t>(kBucket, sizeof(float) * elements);
  rank.gather = std::min(kBucket, bytes);
  return rank;
}
