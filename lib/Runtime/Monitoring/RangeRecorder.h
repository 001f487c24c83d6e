//===- RangeRecorder.h - Recorder of value ranges ---------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_RANGERECORDER_H
#define BINADE_LIB_RUNTIME_MONITORING_RANGERECORDER_H

#include "binade/Runtime/Program.h"
#include "binade/Runtime/Training.h"
#include <map>

namespace binade {

/// Accumulates the statistics of a program's values over steps and writes them
/// as JSON: for each value the number of elements, how many were 0 or not
/// finite, the smallest finite magnitude, the largest magnitude in steps in
/// which all elements were finite, and a histogram of floor(log2 |x|). Values
/// of the backward pass are divided by the loss scale.
class RangeRecorder {
public:
  /// Fails if the program does not compute these statistics.
  static Result<RangeRecorder> create(const Program &program, std::string path);

  /// Adds the last step, unless it was skipped, because its gradients
  /// overflowed only due to the loss scale.
  void add(const StepMetrics &metrics);
  /// Writes the statistics of all steps so far.
  Result<void> write() const;

private:
  struct Range {
    std::string name;
    bool isScaled = false; ///< Whether the loss scale is a factor of it.
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
