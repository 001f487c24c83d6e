//===- AlarmSeries.cpp - Sliding window of a value ------------------------===//

#include "AlarmSeries.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace binade;

void AlarmSeries::add(std::int64_t step, double value, std::int64_t window) {
  double before = points.empty() ? value : points.back().value;
  points.push_back({step, value, std::max(before - value, 0.0)});
  while (points.front().step <= step - window)
    points.pop_front();
}

double AlarmSeries::getSum() const {
  double sum = 0;
  for (const Point &point : points)
    sum += point.value;
  return sum;
}

std::int64_t AlarmSeries::count(double level) const {
  return std::ranges::count_if(
      points, [&](const Point &point) { return point.value >= level; });
}

std::int64_t AlarmSeries::findSince(double level) const {
  auto found = std::ranges::find_if(
      points, [&](const Point &point) { return point.value >= level; });
  return (found == points.end() ? points.back() : *found).step;
}

double AlarmSeries::getFalls() const {
  double falls = 0;
  for (const Point &point : points)
    falls += point.fall;
  return falls;
}

std::int64_t AlarmSeries::findFall() const {
  auto found = std::ranges::find_if(
      points, [](const Point &point) { return point.fall > 0; });
  return (found == points.end() ? points.back() : *found).step;
}

std::int64_t AlarmSeries::countIdle() const {
  std::int64_t idle = 0;
  for (std::size_t i = points.size() - 1; i > 0 && points[i - 1].value == 0;
       --i)
    ++idle;
  return idle;
}

double AlarmSeries::getUsual() const {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i + 1 < points.size(); ++i)
    if (points[i].value != 0) {
      sum += points[i].value;
      ++count;
    }
  return sum / static_cast<double>(count);
}

/// Fits a line by ordinary least squares; the standard error of the slope has
/// n - 2 degrees of freedom.
AlarmSeries::Line AlarmSeries::fit() const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (points.size() < 3)
    return {kNone, kNone, kNone};
  auto n = static_cast<double>(points.size());
  double meanStep = 0, mean = getSum() / n;
  for (const Point &point : points)
    meanStep += static_cast<double>(point.step) / n;
  double squares = 0, products = 0;
  for (const Point &point : points) {
    double x = static_cast<double>(point.step) - meanStep;
    squares += x * x;
    products += x * (point.value - mean);
  }
  double slope = products / squares, residuals = 0;
  auto at = [&](std::int64_t step) {
    return mean + slope * (static_cast<double>(step) - meanStep);
  };
  for (const Point &point : points)
    residuals += std::pow(point.value - at(point.step), 2);
  double error = std::sqrt(residuals / (n - 2) / squares);
  return {slope, slope == 0 ? 0 : slope / error, at(points.back().step)};
}
