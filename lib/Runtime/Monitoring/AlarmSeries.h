//===- AlarmSeries.h - A number of a run, step by step ----------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_ALARMSERIES_H
#define BINADE_LIB_RUNTIME_MONITORING_ALARMSERIES_H

#include <cstdint>
#include <deque>

namespace binade {

/// The newest numbers of a series, as far back as a window goes.
class AlarmSeries {
public:
  /// A straight line by least squares; NaN where there is none.
  struct Line {
    double slope; ///< Per step.
    double t;     ///< The slope in standard errors; infinite without an error.
    double end;   ///< On the line, at the newest step.
  };

  /// Adds a number, and forgets what lies `window` steps back or more.
  void add(std::int64_t step, double value, std::int64_t window);

  std::int64_t size() const { return std::int64_t(points.size()); }
  double getSum() const;
  /// How many are not below `level`, and the first step with one.
  std::int64_t count(double level) const;
  std::int64_t findSince(double level) const;
  /// The sum of all decreases from one to the next, and the first step with
  /// one.
  double getFalls() const;
  std::int64_t findFall() const;
  /// How many in a row are 0, before the newest.
  std::int64_t countIdle() const;
  /// The mean of those before the newest that are not 0; NaN where all are.
  double getUsual() const;
  Line fit() const;

private:
  struct Point {
    std::int64_t step;
    double value;
    double fall; ///< From the number before, 0 where it is no less.
  };
  std::deque<Point> points;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_ALARMSERIES_H
