//===- Activity.h - what a thread is doing ----------------------*- C++ -*-===//
// A crash report names the current activities of the program: the phase and the
// pass of the compiler, or the record of a plan. Code that works on one of
// these has an object of this class for as long as it does.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_ACTIVITY_H
#define BINADE_CONTAINER_ACTIVITY_H

#include <string_view>

namespace binade {

/// Declares what this thread does while the object exists. Activities of a
/// thread nest. An object costs a few stores.
class Activity {
public:
  /// `kind` says what `name` is the name of: "phase", "record". Both must
  /// outlive the activity.
  Activity(std::string_view kind, std::string_view name) noexcept;
  ~Activity();
  Activity(const Activity &) = delete;
  Activity &operator=(const Activity &) = delete;

  std::string_view getKind() const { return kind; }
  std::string_view getName() const { return name; }
  /// The activity that this one is part of, or null.
  const Activity *getOuter() const { return outer; }

  /// The innermost activity of this thread or, if it has none, of the thread
  /// that called `followThread`. Async-signal-safe.
  static const Activity *getInnermost();
  /// Lets threads without activities of their own report those of this thread:
  /// the main thread calls it, whose parallel loops run on worker threads.
  static void followThread();

private:
  std::string_view kind, name;
  const Activity *outer;
};

} // namespace binade

#endif // BINADE_CONTAINER_ACTIVITY_H
