//===- ScaleHistories.h - Alarm statistics of amax histories ----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_SCALEHISTORIES_H
#define BINADE_LIB_RUNTIME_TRAINING_SCALEHISTORIES_H

#include "../Monitoring/AlarmWatch.h"

namespace binade {

/// Reads the amax histories of delayed scales between steps, so that alarms can
/// report outliers. Needs no code in the compiled step.
class ScaleHistories {
public:
  explicit ScaleHistories(const Program &program);

  /// In every tenth step, adds a place of kind `history` for each history, with
  /// the statistics `excess`, `room` and `source`. This misses no outlier,
  /// because one stays in a history for more than ten steps.
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
