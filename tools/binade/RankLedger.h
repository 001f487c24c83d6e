//===- RankLedger.h - The memory of one rank of many ------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_RANKLEDGER_H
#define BINADE_TOOLS_BINADE_RANKLEDGER_H

#include "binade/Plan/Plan.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <string>

/// What the ranks of a data-parallel group shard.
enum class Sharding : std::uint8_t {
  None,  ///< Every rank has all states and updates all parameters.
  Zero1, ///< A rank has the states of the elements that it updates.
};
llvm::StringRef getName(Sharding sharding);

/// The formats in which ranks exchange gradients.
inline constexpr llvm::StringLiteral kExchangeFormats[] = {"f32", "bf16",
                                                           "e4m3", "exact"};

inline constexpr std::int64_t kMaxRanks = 1 << 24;

/// How a training step is distributed.
struct RankSettings {
  std::int64_t ranks = 1;
  Sharding sharding = Sharding::None;
  std::string exchange = "f32"; ///< Format of exchanged gradients.
};

/// The memory of the rank that has the most.
struct RankLedger {
  /// The plan's, but with the shards of this rank under `state`.
  std::map<::binade::plan::Category, std::uint64_t> ledger;
  /// What is sent and received and cannot be so in place.
  std::uint64_t exchange = 0;
  std::uint64_t gather = 0; ///< For parameters that other ranks have updated.

  std::uint64_t getBytes() const;
};

/// Counts the memory of a rank from the plan of the whole step.
///
/// With Zero1, ranks have blocks of elements (see binade::shardStates), and
/// updated parameters are gathered piece by piece.
RankLedger countRank(const ::binade::Plan &plan, const RankSettings &settings);

/// Returns the bytes by category, with "exchange" and "gather".
llvm::json::Object toJson(const RankLedger &rank);

#endif // BINADE_TOOLS_BINADE_RANKLEDGER_H
