//===- Activity.h - what a thread is doing ----------------------*- C++ -*-===//
// The report of a crash says what was being done: the phase and the pass of the
// compiler, the record of a plan. Code that works on one of these names it for
// as long as it does.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_ACTIVITY_H
#define BINADE_CONTAINER_ACTIVITY_H

#include <string_view>

namespace binade {

/// Something that this thread is doing while the object exists. Activities of a
/// thread are nested. Costs a few stores.
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

  /// What this thread is doing or, where it has not said, what the thread is
  /// doing that called `followThread`. May be called by a signal handler.
  static const Activity *getInnermost();
  /// Makes this thread the one that works for those that do not say what they
  /// do: the main thread, whose loops are run by a team of threads.
  static void followThread();

private:
  std::string_view kind, name;
  const Activity *outer;
};

} // namespace binade

#endif // BINADE_CONTAINER_ACTIVITY_H
