//===- RangeRecorder.h - What the values of a run were like -----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_RANGERECORDER_H
#define BINADE_LIB_RUNTIME_MONITORING_RANGERECORDER_H

#include "binade/Runtime/Program.h"
#include "binade/Runtime/Training.h"
#include <map>

namespace binade {

/// Adds up the statistics of a program over steps and writes them as JSON: how
/// many elements of each value there were, how many were 0 or not finite, the
/// smallest finite magnitude and the largest of steps where all were finite,
/// and a histogram of floor(log2 |x|). What the backward part made is taken
/// before the loss was scaled.
class RangeRecorder {
public:
  /// Refuses a program that does not count these.
  static Result<RangeRecorder> create(const Program &program, std::string path);

  /// Adds the last step. One that was skipped is none: its gradients overflowed
  /// for the scale that they had.
  void add(const StepMetrics &metrics);
  /// What was seen up to now.
  Result<void> write() const;

private:
  struct Range {
    std::string name;
    bool isScaled = false; ///< By the scale of the loss.
    std::span<const float> amax, smallest;
    std::span<const std::int64_t> zeros, exponents;

    std::int64_t count = 0, numZeros = 0, notFinite = 0;
    double largest = 0, least = 0;
    std::map<int, std::int64_t> histogram;

    void add(double scale);
  };

  RangeRecorder(const Program &program, std::string path)
      : program(&program), path(std::move(path)) {}

  const Program *program;
  std::string path;
  std::vector<Range> ranges;
  std::int64_t steps = 0;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_RANGERECORDER_H
