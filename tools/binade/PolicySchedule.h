//===- PolicySchedule.h - The policies of a run -----------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_POLICYSCHEDULE_H
#define BINADE_TOOLS_BINADE_POLICYSCHEDULE_H

#include "Options.h"
#include "binade/Precision/CountOrShare.h"
#include "binade/Runtime/Program.h"

/// The policies of a run and the steps between which it uses each of them.
class PolicySchedule {
public:
  /// A part of the run under one policy.
  struct Part {
    std::string policy; ///< A name, or a file.
    std::string hash;
    /// The steps before this part; none for the first one.
    mlir::binade::CountOrShare after;
    /// Where the schedule names the policy: a file, and a line and column.
    std::string file, place;
  };
  /// Where a run continues.
  struct Position {
    size_t part = 0;
    /// Whether the newest checkpoint was written under another policy of the
    /// schedule, so that it has to be converted.
    bool converts = false;
  };

  /// Returns the schedule of a policy. It is empty if the policy has none, or
  /// if one of the policies cannot be loaded, which compilation reports.
  static PolicySchedule load(const std::string &policy);

  bool isEmpty() const { return parts.empty(); }
  size_t size() const { return parts.size(); }
  const Part &operator[](size_t part) const { return parts[part]; }

  /// Returns the step after which a part of a run of `steps` steps ends; 0 for
  /// the last part.
  int64_t findEnd(size_t part, int64_t steps) const;
  /// Returns the part in which a run of `steps` steps continues after step
  /// `done`.
  size_t findPart(int64_t done, int64_t steps) const;
  /// Returns where the run in `directory` continues.
  Position findPosition(const std::string &directory, int64_t steps) const;

  /// Fails if the plan of a part stores a parameter, buffer or optimizer state
  /// in another format than `first`, the plan of the first part.
  static ::binade::Result<void> checkStates(const ::binade::Plan &first,
                                            const ::binade::Plan &other,
                                            const Part &part);

private:
  std::vector<Part> parts;
};

#endif // BINADE_TOOLS_BINADE_POLICYSCHEDULE_H
