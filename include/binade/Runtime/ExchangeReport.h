//===- ExchangeReport.h - Schedule of a plan's exchanges --------*- C++ -*-===//

#ifndef BINADE_RUNTIME_EXCHANGEREPORT_H
#define BINADE_RUNTIME_EXCHANGEREPORT_H

#include "binade/Plan/Plan.h"

namespace binade {

/// A bucket of the step, and when its exchange can begin.
struct BucketReport {
  plan::Exchange::Operation operation = plan::Exchange::Sum;
  std::size_t tensors = 0;
  std::int64_t elements = 0; ///< Including gaps between tensors.
  /// The share of the bytes that the step moves until the join, before the
  /// start: from 0 to 1. 1 leaves no time for the exchange to overlap.
  double ready = 0;
};

/// The exchanges of a step.
struct ExchangeReport {
  plan::Exchange::Format format = plan::Exchange::F32;
  std::int64_t batches = 1; ///< Of a step, of all ranks together.
  std::vector<BucketReport> buckets;
};

/// Returns nothing for a plan without exchanges.
std::optional<ExchangeReport> describeExchange(const Plan &plan);

/// Returns the error of sums in this format, as text.
std::string_view describeError(plan::Exchange::Format format);

} // namespace binade

#endif // BINADE_RUNTIME_EXCHANGEREPORT_H
