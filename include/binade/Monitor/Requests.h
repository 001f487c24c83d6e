//===- Requests.h - Requests for statistics of values -----------*- C++ -*-===//
//
// A request is text: 'gradient/*attn*:absmax,zeros@every=10'.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_MONITOR_REQUESTS_H
#define BINADE_MONITOR_REQUESTS_H

#include "binade/Container/Error.h"
#include "binade/IR/Binade.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::binade {

class ValueStatistics;

/// The kind of a watched value.
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
  /// Whether `*` excludes it, because another kind has the same values or the
  /// step has no such values.
  bool isOnlyNamed = false;
};
/// Returns all kinds, as `binade list stats` prints them.
ArrayRef<WatchedKindInfo> getWatchedKinds();
StringRef getName(WatchedKind kind);

/// A statistic: its name, documentation and builder.
struct StatisticInfo {
  StringLiteral name;
  /// The formula over the n elements x; empty if it is not a number.
  StringLiteral formula;
  StringLiteral unit, summary;
  /// Whether it depends on a format, which a user may name: NAME(FORMAT).
  bool hasFormat;
  /// Builds the statistic, an f32 or f64 scalar or a histogram; returns null
  /// for a value that has no such statistic.
  Value (*build)(ValueStatistics &, FloatType format);
  /// Whether it is about the effect of an update, and so missing in a skipped
  /// step.
  bool isOfUpdate = false;
};
/// Returns all statistics, as `binade list stats` prints them.
ArrayRef<StatisticInfo> getStatistics();

struct StatisticsRequest {
  std::string where; ///< The origin and the text, for messages.
  struct Filter {
    std::optional<WatchedKind> kind;       ///< None for all.
    std::optional<llvm::GlobPattern> name; ///< None for all.
  };
  std::vector<Filter> filters;
  struct Wanted {
    const StatisticInfo *info;
    FloatType format; ///< Null for the value's own.
    std::string name; ///< "underflow(f16)".
  };
  std::vector<Wanted> statistics;
  int64_t every = 1;

  /// Whether the request includes a value. `isRepeated`: whether a value of
  /// another kind has the same elements, so that `*` leaves this one out.
  bool matches(WatchedKind kind, StringRef layer,
               bool isRepeated = false) const;
};

/// Parses KIND[/GLOB],...:STATISTIC[(FORMAT)],...[@every=N]; `*` is every kind.
/// Returns an error that starts with `origin`, the source of the request.
::binade::Result<StatisticsRequest>
parseStatisticsRequest(StringRef text, MLIRContext &context,
                       StringRef origin = "--stats");

} // namespace mlir::binade

#endif // BINADE_MONITOR_REQUESTS_H
