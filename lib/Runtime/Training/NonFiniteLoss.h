//===- NonFiniteLoss.h - A batch whose loss is not finite -------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_NONFINITELOSS_H
#define BINADE_LIB_RUNTIME_TRAINING_NONFINITELOSS_H

#include "BatchFeed.h"

namespace binade {

/// A batch whose loss is not finite.
struct NonFiniteLoss {
  std::int64_t batch = 0; ///< Number of the batch in the run, from 1.
  double loss = 0;
  std::vector<std::uint64_t> samples; ///< Rows of the data file.
  std::string path;                   ///< Printable path of the data file.

  /// Returns "the loss is -infinity in batch 3".
  std::string describe() const;
  /// Returns "batch 3 has samples 16 to 23 of data.safetensors".
  std::string describeSamples() const;
};

/// Returns "NaN", "infinity", "-infinity" or the number as text.
std::string formatLoss(double loss);

/// Returns the current batch of `feed` if `loss`, its loss, is not finite.
std::optional<NonFiniteLoss> findNonFiniteLoss(std::int64_t batch, double loss,
                                               const BatchFeed &feed);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_NONFINITELOSS_H
