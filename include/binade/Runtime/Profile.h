//===- Profile.h - Where the time of steps goes -----------------*- C++ -*-===//
// What the records of a plan took, and what they could take at the least: the
// bytes that they move at the machine's bandwidth, or the operations that they
// compute at its peak (the roofline).
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_PROFILE_H
#define BINADE_RUNTIME_PROFILE_H

#include "binade/Plan/Plan.h"
#include <map>
#include <span>
#include <string>
#include <vector>

namespace binade {

/// What one execution of a record moves and computes.
struct RecordCost {
  /// Of its operands: each buffer once, and once more where a result takes the
  /// place of an operand. Of a buffer that loops walk through, the part of one
  /// iteration.
  std::uint64_t bytes = 0;
  /// Additions and multiplications of a contraction.
  double flops = 0;
  DType dtype = DType::F32; ///< The wider one of what it multiplies.
  bool tf32 = false;        ///< Units for TF32 may multiply these.
};

/// `counts` are those of the loops around the record, outermost first. A loop
/// costs nothing itself.
RecordCost costOf(const plan::Record &record,
                  std::span<const plan::Buffer> buffers,
                  std::span<const std::int64_t> counts = {});

/// What a machine can do at the most; what is 0 or missing is not known.
struct Ceilings {
  double bytesPerSecond = 0; ///< Read and written.
  std::map<DType, double> flopsPerSecond;
  double tf32FlopsPerSecond = 0; ///< Where it is more than that of F32.
  /// How each number was found, for people.
  std::vector<std::string> sources;

  /// Of an execution that is as fast as they allow.
  double leastSeconds(const RecordCost &cost) const;
};

struct RecordProfile {
  const plan::Record *record = nullptr; ///< Of the program's plan.
  /// "step", "accumulation" or "evaluation": whose record it is.
  std::string_view program;
  std::string label, kind, implementation;
  RecordCost cost; ///< Of one call.
  /// Calls that a parallel loop executes at the same time: each has that part
  /// of the machine.
  unsigned lanes = 1;
  std::int64_t calls = 0;
  /// Of all calls; of those in a parallel loop, their part of its time.
  double seconds = 0;

  /// Of all calls, at `ceilings`.
  double leastSeconds(const Ceilings &ceilings) const {
    return ceilings.leastSeconds(cost) * static_cast<double>(calls);
  }
};

/// What happened since profiling was switched on. Records in the order of the
/// plan; loops are not among them, but what they hold.
struct Profile {
  std::int64_t steps = 0;
  double seconds = 0; ///< In steps, accumulations and evaluations.
  std::vector<RecordProfile> records;
  Ceilings ceilings;
};

} // namespace binade

#endif // BINADE_RUNTIME_PROFILE_H
