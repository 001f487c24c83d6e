//===- AlarmSeries.h - Sliding window of a value ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_ALARMSERIES_H
#define BINADE_LIB_RUNTIME_MONITORING_ALARMSERIES_H

#include <cstdint>
#include <deque>

namespace binade {

/// The newest points of a series, within a window of steps.
class AlarmSeries {
public:
  /// A line fitted by least squares; NaN for fewer than three points.
  struct Line {
    double slope; ///< Per step.
    double t;     ///< The t statistic: the slope divided by its standard error.
    double end;   ///< The value of the line at the newest step.
  };

  /// Adds a point, and removes points that are `window` or more steps old.
  void add(std::int64_t step, double value, std::int64_t window);

  std::int64_t size() const { return std::int64_t(points.size()); }
  double getSum() const;
  /// Returns the number of values that are at least `level`.
  std::int64_t count(double level) const;
  /// Returns the step of the first of these, or the newest step.
  std::int64_t findSince(double level) const;
  /// Returns the sum of all decreases from one value to the next.
  double getFalls() const;
  /// Returns the step of the first decrease, or the newest step.
  std::int64_t findFall() const;
  /// Returns how many consecutive values directly before the newest are 0.
  std::int64_t countIdle() const;
  /// Returns the mean of the nonzero values before the newest; NaN without any
  /// such value.
  double getUsual() const;
  Line fit() const;

private:
  struct Point {
    std::int64_t step;
    double value;
    double
        fall; ///< Decrease from the previous value, 0 if it did not decrease.
  };
  std::deque<Point> points;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_ALARMSERIES_H
