//===- NonFiniteLoss.h - A batch whose loss is not finite -------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_NONFINITELOSS_H
#define BINADE_LIB_RUNTIME_TRAINING_NONFINITELOSS_H

#include "BatchFeed.h"

namespace binade {

struct NonFiniteLoss {
  std::int64_t batch = 0; ///< Of the run, from 1.
  double loss = 0;
  std::vector<std::uint64_t> samples; ///< Rows of the data file.
  std::string path;                   ///< Of that file, printable.

  /// "the loss is -infinity in batch 3".
  std::string describe() const;
  /// "batch 3 has samples 16 to 23 of data.safetensors".
  std::string describeSamples() const;
};

/// "NaN", "infinity", "-infinity" or the number.
std::string formatLoss(double loss);

/// The batch that `feed` gave last, if its loss is not finite.
std::optional<NonFiniteLoss> findNonFiniteLoss(std::int64_t batch, double loss,
                                               const BatchFeed &feed);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_NONFINITELOSS_H
