//===- ScaleHistories.h - What delayed scales follow from -------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_SCALEHISTORIES_H
#define BINADE_LIB_RUNTIME_SCALEHISTORIES_H

#include "AlarmWatch.h"

namespace binade {

/// Looks between steps at the histories of magnitudes that delayed scales
/// follow from, so that alarms know of an outlier. The step computes nothing
/// for it.
class ScaleHistories {
public:
  explicit ScaleHistories(const Program &program);

  /// Adds a place of kind `history` for each, with statistics `excess`, `room`
  /// and `source`, to a step whose number is a multiple of ten: an outlier
  /// stays in a history for longer.
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

#endif // BINADE_LIB_RUNTIME_SCALEHISTORIES_H
