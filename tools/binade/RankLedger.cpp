//===- RankLedger.cpp - The memory of one rank of many --------------------===//

#include "RankLedger.h"
#include "binade/Codegen/EmitKernel.h"
#include "binade/Container/ExchangeLayout.h"
#include "binade/Plan/DivideStates.h"
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
/// A parameter and its states.
struct Share {
  std::uint64_t elements = 1, bytes = 0;
  std::uint64_t states = 0; ///< Bytes.

  /// Returns the bytes of `whole` that belong to `own` elements.
  std::uint64_t take(std::uint64_t whole, std::uint64_t own) const {
    return elements ? llvm::divideCeil(whole * own, elements) : 0;
  }
};
} // namespace

static std::vector<Share> listParameters(const Plan &plan) {
  std::vector<Share> found;
  llvm::StringMap<std::size_t> places;
  for (const Port &port : plan.ports) {
    if (port.role != Role::Parameter)
      continue;
    const Buffer &buffer = plan.buffers[port.buffer];
    places[port.name] = found.size();
    found.push_back({buffer.bytes / byteSize(buffer.dtype), buffer.bytes});
  }
  // A state is called `<state>/<parameter>`, or `<state>/<parameter>.<part>`
  // for parts such as scales.
  for (const Port &port : plan.ports) {
    if (port.role != Role::State)
      continue;
    llvm::StringRef name = llvm::StringRef(port.name).split('/').second;
    while (!name.empty() && !places.contains(name))
      name = name.contains('.') ? name.rsplit('.').first : "";
    if (!name.empty())
      found[places[name]].states += plan.buffers[port.buffer].bytes;
  }
  return found;
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

namespace {
/// The bytes of a rank with its part of the elements.
struct Part {
  std::uint64_t parameters = 0, states = 0;
};
} // namespace

/// Returns the most bytes that a rank has of each, with states divided as
/// `divideStates` does.
static Part findLargestPart(const std::vector<Share> &shares,
                            std::int64_t ranks) {
  std::vector<::binade::ElementDivision::Tensor> tensors;
  for (const Share &share : shares)
    tensors.push_back({static_cast<std::int64_t>(share.elements),
                       mlir::binade::kTensorBlock, share.states});
  ::binade::ElementDivision division(std::move(tensors));
  Part largest;
  std::size_t first = 0; // Where the rank begins.
  for (std::int64_t rank = 0, begin = 0; rank < ranks; ++rank) {
    std::int64_t end = division.findCut(rank + 1, ranks);
    Part part;
    for (std::size_t index = first;
         index < shares.size() && division.getStart(index) < end; ++index) {
      const Share &share = shares[index];
      std::int64_t start = division.getStart(index);
      auto own = static_cast<std::uint64_t>(
          std::min(end, division.getStart(index + 1)) - std::max(begin, start));
      part.parameters += share.take(share.bytes, own);
      part.states += share.take(share.states, own);
    }
    while (first < shares.size() && division.getStart(first + 1) <= end)
      ++first;
    largest = {std::max(largest.parameters, part.parameters),
               std::max(largest.states, part.states)};
    begin = end;
  }
  return largest;
}

RankLedger countRank(const Plan &plan, const RankSettings &settings) {
  RankLedger rank{.ledger = plan.ledger};
  if (settings.ranks <= 1)
    return rank;
  std::vector<Share> shares = listParameters(plan);
  std::uint64_t elements = 0, states = 0;
  for (const Share &share : shares) {
    elements += share.elements;
    states += share.states;
  }
  rank.exchange = countTransfers(elements, settings);
  if (settings.sharding == Sharding::None)
    return rank;
  // Parameters without states are not divided.
  std::erase_if(shares, [](const Share &share) { return share.states == 0; });
  Part part = findLargestPart(shares, settings.ranks);
  rank.ledger[Category::State] -= states - std::min(states, part.states);
  auto ranks = static_cast<std::uint64_t>(settings.ranks);
  rank.gather = ranks * ::binade::getGatheredPiece(part.parameters, ranks);
  return rank;
}
