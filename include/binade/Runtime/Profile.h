//===- Profile.h - Execution times and roofline of records ------*- C++ -*-===//
// A profile compares the measured time of each record of a plan with its
// roofline: the time to move its bytes at the machine's bandwidth, or to
// compute its operations at the machine's peak, whichever is longer.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_PROFILE_H
#define BINADE_RUNTIME_PROFILE_H

#include "binade/Plan/Plan.h"
#include <map>
#include <span>
#include <string>
#include <vector>

namespace binade {

/// The bytes and operations of one execution of a record.
struct RecordCost {
  /// Bytes of the operands. A buffer counts once, or twice if it is both read
  /// and written in place. If a loop iterates over a buffer, only the part of
  /// one iteration counts.
  std::uint64_t bytes = 0;
  /// Additions and multiplications of a contraction; 0 for other records.
  double flops = 0;
  DType dtype = DType::F32; ///< The wider type of the two factors.
  bool tf32 = false;        ///< Whether TF32 tensor cores may be used.
};

/// Returns the cost of one execution of `record`. `counts` are the iteration
/// counts of the loops around it, outermost first. The cost of a loop record
/// itself is 0.
RecordCost costOf(const plan::Record &record,
                  std::span<const plan::Buffer> buffers,
                  std::span<const std::int64_t> counts = {});

/// The peak rates of a machine; 0 or missing if unknown.
struct Ceilings {
  double bytesPerSecond = 0; ///< Read and written.
  std::map<DType, double> flopsPerSecond;
  double tf32FlopsPerSecond = 0; ///< Set only if higher than that of F32.
  /// How each rate was found, as text.
  std::vector<std::string> sources;

  /// Returns the roofline time of one execution in seconds.
  double rooflineSeconds(const RecordCost &cost) const;
};

struct RecordProfile {
  const plan::Record *record = nullptr;
  /// The record list that contains it: "step", "accumulation", "evaluation" or
  /// "observation".
  std::string_view program;
  std::string label, kind, implementation;
  RecordCost cost; ///< Cost of one call.
  /// How many calls a parallel loop executes concurrently, so that each gets
  /// 1 / `lanes` of the machine.
  unsigned lanes = 1;
  std::int64_t calls = 0;
  /// Time of all calls; in a parallel loop, their share of the loop's time.
  double seconds = 0;

  /// Returns the roofline time of all calls in seconds.
  double rooflineSeconds(const Ceilings &ceilings) const {
    return ceilings.rooflineSeconds(cost) * static_cast<double>(calls);
  }
};

/// The measurements since profiling was switched on. `records` are in the order
/// of the plan and include the records in loops, but not the loops themselves.
struct Profile {
  std::int64_t steps = 0;
  double seconds = 0; ///< Time of all steps, accumulations and evaluations.
  std::vector<RecordProfile> records;
  Ceilings ceilings;
};

} // namespace binade

#endif // BINADE_RUNTIME_PROFILE_H
