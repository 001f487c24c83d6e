//===- PredictedTimes.h - How long a plan takes on a target -----*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_PREDICTEDTIMES_H
#define BINADE_TOOLS_BINADE_PREDICTEDTIMES_H

#include "binade/Plan/Plan.h"
#include "binade/Precision/Costs.h"

/// Returns the seconds that each record of a list takes by the costs of a
/// target: one start of a kernel, its bytes at the rate of elementwise kernels,
/// and its multiply-adds at the rate of matmuls. On a GPU with measured matmuls
/// these are predicted by their shapes. A loop takes what its iterations take.
std::vector<double>
predictSeconds(const std::vector<::binade::plan::Record> &records,
               const ::binade::Plan &plan,
               const mlir::binade::TargetCosts &costs);

/// Returns the seconds of a step that its ranks share if they shard the
/// optimizer states: the update of parameters, without the start of kernels.
double predictShardedSeconds(const ::binade::Plan &plan,
                             const mlir::binade::TargetCosts &costs);

#endif // BINADE_TOOLS_BINADE_PREDICTEDTIMES_H
