//===- Requests.h - which statistics of which values ------------*- C++ -*-===//
//
// What a user asks for, as text: 'gradient/*attn*:absmax,zeros@every=10'.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_MONITOR_REQUESTS_H
#define BINADE_MONITOR_REQUESTS_H

#include "binade/Container/Error.h"
#include "binade/IR/Binade.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::binade {

class ValueStatistics;

/// What a watched value is to the step.
enum class WatchedKind : uint8_t {
  Weight,
  NarrowWeight,
  Gradient,
  ScaledGradient,
  Loss,
  Input,
  Output,
  OutputGradient,
  ScaledOutputGradient,
  Saved,
  State,
  Scale,
  History,
};

struct WatchedKindInfo {
  WatchedKind kind;
  StringLiteral name, summary;
  /// Whether `*` leaves it out, because another kind has the same values or the
  /// step has none.
  bool isOnlyNamed = false;
};
/// All kinds, as `binade list stats` shows them.
ArrayRef<WatchedKindInfo> getWatchedKinds();
StringRef getName(WatchedKind kind);

/// A statistic: everything that there is to know of it.
struct StatisticInfo {
  StringLiteral name;
  /// Of the elements x, n in number; empty where it is no number.
  StringLiteral formula;
  StringLiteral unit, summary;
  /// Whether it is about a format, which a user may name: NAME(FORMAT).
  bool hasFormat;
  /// Builds the value, an f32 or f64 number or a histogram; null for a value
  /// that has no such statistic.
  Value (*build)(ValueStatistics &, FloatType format);
  /// Whether it is about what an update does: nothing in a skipped step.
  bool isOfUpdate = false;
};
/// All of them, as `binade list stats` shows them.
ArrayRef<StatisticInfo> getStatistics();

struct StatisticsRequest {
  std::string where; ///< Who asks, and how, for messages.
  struct Filter {
    std::optional<WatchedKind> kind;       ///< None for all.
    std::optional<llvm::GlobPattern> name; ///< None for all.
  };
  std::vector<Filter> filters;
  struct Wanted {
    const StatisticInfo *info;
    FloatType format; ///< Null for that of the value.
    std::string name; ///< "underflow(f16)".
  };
  std::vector<Wanted> statistics;
  int64_t every = 1;

  bool matches(WatchedKind kind, StringRef layer) const;
};

/// Reads KIND[/GLOB],...:STATISTIC[(FORMAT)],...[@every=N], or says what is
/// wrong with it. `*` is every kind. `origin` is who asks, for messages.
::binade::Result<StatisticsRequest>
parseStatisticsRequest(StringRef text, MLIRContext &context,
                       StringRef origin = "--stats");

} // namespace mlir::binade

#endif // BINADE_MONITOR_REQUESTS_H
