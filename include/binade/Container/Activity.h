//===- Activity.h - Activities for crash reports ----------------*- C++ -*-===//
// A crash report lists the current activities of the program, such as the phase
// and pass of the compiler, or the record of a plan. Code creates an Activity
// object for the time that it executes one of these.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_ACTIVITY_H
#define BINADE_CONTAINER_ACTIVITY_H

#include <string_view>

namespace binade {

/// Declares what this thread is doing while the object exists. Activities of a
/// thread nest. The cost is a few stores.
class Activity {
public:
  /// `kind` is the kind of activity, such as "phase" or "record". Both strings
  /// must outlive the activity.
  Activity(std::string_view kind, std::string_view name) noexcept;
  ~Activity();
  Activity(const Activity &) = delete;
  Activity &operator=(const Activity &) = delete;

  std::string_view getKind() const { return kind; }
  std::string_view getName() const { return name; }
  /// Returns the surrounding activity, or null.
  const Activity *getOuter() const { return outer; }

  /// Returns the innermost activity of this thread or, if it has none, of the
  /// thread that called `followThread`. Async-signal-safe.
  static const Activity *getInnermost();
  /// Makes threads without activities report those of this thread. Called by
  /// the main thread, whose parallel loops run on worker threads.
  static void followThread();

private:
  std::string_view kind, name;
  const Activity *outer;
};

} // namespace binade

#endif // BINADE_CONTAINER_ACTIVITY_H
