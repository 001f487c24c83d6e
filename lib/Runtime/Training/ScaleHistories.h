//===- ScaleHistories.h - Magnitudes behind delayed scales ------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_SCALEHISTORIES_H
#define BINADE_LIB_RUNTIME_TRAINING_SCALEHISTORIES_H

#include "../Monitoring/AlarmWatch.h"

namespace binade {

/// Reads, between steps, the magnitude histories from which delayed scales are
/// computed, so that alarms can report an outlier. Adds nothing to the compiled
/// step.
class ScaleHistories {
public:
  explicit ScaleHistories(const Program &program);

  /// Adds to every tenth step, for each history, a place of kind `history` with
  /// the statistics `excess`, `room` and `source`. An outlier stays in a
  /// history for more than ten steps.
  void addTo(AlarmStep &step) const;

private:
  struct Entry {
    std::string port, layer;
    double room;
  };

  const Program &program;
  std::vector<Entry> entries;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_SCALEHISTORIES_H
