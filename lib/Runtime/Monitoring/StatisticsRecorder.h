//===- StatisticsRecorder.h - Reader and writer of statistics ---*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_STATISTICSRECORDER_H
#define BINADE_LIB_RUNTIME_MONITORING_STATISTICSRECORDER_H

#include "../Runs/AppendFile.h"
#include "binade/Runtime/Program.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// The value of a statistic in a step.
struct Observed {
  std::string_view kind, layer, statistic;
  double number = 0; ///< NaN for a histogram, or without a value.
  /// For a histogram: how many elements have each biased f32 exponent.
  std::span<const std::int64_t> exponents;
};

/// Reads the statistics that a program computes for its user; see
/// `plan::Port::every`.
class StatisticsRecorder {
public:
  explicit StatisticsRecorder(const Program &program);

  /// Whether the step computes statistics that are not due in every step.
  bool isDue(std::int64_t step) const;
  /// Returns the statistics that were due in the step just completed. Their
  /// histograms change with the next step.
  std::vector<Observed> read(std::int64_t step) const;

private:
  struct Entry {
    Observed known; ///< All but the value.
    std::int64_t every;
    Tensor tensor;
  };

  std::vector<Entry> entries;
};

/// Writes one line of JSON for each step and watched value: `step`, `kind`,
/// `layer`, then each statistic under its name, as a number, as null if it is
/// not finite, or as an object of counts by exponent for a histogram. `write`
/// does not buffer lines.
class StatisticsFile {
public:
  /// Removes the lines after `step`, and an incomplete last line, from an
  /// existing file. A new file is created with its first line.
  static Result<StatisticsFile> open(const std::string &path,
                                     std::int64_t step);
  Result<void> write(std::int64_t step, std::span<const Observed> observed);
  /// Syncs all lines to disk.
  Result<void> sync() { return file.sync(); }

private:
  explicit StatisticsFile(StepLines file) : file(std::move(file)) {}

  StepLines file;
};

/// The exponent of the first entry of a histogram.
inline constexpr int kFirstExponent = -127;

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_STATISTICSRECORDER_H
