//===- StatisticsRecorder.h - Statistics of values, by step -----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_STATISTICSRECORDER_H
#define BINADE_LIB_RUNTIME_MONITORING_STATISTICSRECORDER_H

#include "../Runs/AppendFile.h"
#include "binade/Runtime/Program.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// A statistic that a step has computed.
struct Observed {
  std::string_view tag; ///< `kind/layer/statistic`, as the port is called.
  std::string_view kind, layer, statistic;
  double number = 0; ///< NaN where it has no value.
  /// Instead of a number: how many elements have each biased exponent of f32.
  std::span<const std::int64_t> exponents;
};

/// The statistics that a program computes for its user: see
/// `plan::Port::every`.
class StatisticsRecorder {
public:
  explicit StatisticsRecorder(const Program &program);

  /// Whether the step computes what not each does.
  bool isDue(std::int64_t step) const;
  /// Those of the step that the program has just done.
  std::vector<Observed> read(std::int64_t step) const;

private:
  struct Entry {
    Observed known; ///< All but the value.
    std::int64_t every;
    Tensor tensor;
  };

  std::vector<Entry> entries;
};

/// One JSON object per line, step and watched value: `step`, `kind`, `layer`,
/// then what was computed, by name: a number, null where it is not finite or
/// does not exist, or a histogram as an object of counts by exponent. A line is
/// in the file when `write` returns.
class StatisticsFile {
public:
  /// Cuts off what follows `step`, and a line without an end. Where nothing is
  /// computed there need be no file: it is made by the first line.
  static Result<StatisticsFile> open(const std::string &path,
                                     std::int64_t step);
  Result<void> write(std::int64_t step, std::span<const Observed> observed);
  /// Brings all lines to disk.
  Result<void> sync() { return file.sync(); }

private:
  explicit StatisticsFile(StepLines file) : file(std::move(file)) {}

  StepLines file;
};

/// The exponent of the first entry of a histogram.
inline constexpr int kFirstExponent = -127;

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_STATISTICSRECORDER_H
