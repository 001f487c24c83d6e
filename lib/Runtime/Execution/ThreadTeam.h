//===- ThreadTeam.h - One team of threads for everything --------*- C++ -*-===//
// Kernels run on the OpenMP team that oneDNN uses: a second pool would fight
// with its spinning threads for the cores. libgomp is found at run time; where
// there is none (then there is no oneDNN either) std::thread takes its place.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_THREADTEAM_H
#define BINADE_LIB_RUNTIME_EXECUTION_THREADTEAM_H

#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

namespace binade {

class ThreadTeam {
public:
  virtual ~ThreadTeam() = default;

  /// The process's team: libgomp's, or threads of its own.
  static ThreadTeam &get();
  /// The team without libgomp, for tests.
  static ThreadTeam &getWithoutLibgomp();

  virtual std::string_view getName() const = 0;

  /// Calls `body(index, thread)` for every index in [0, count), each once, in
  /// any order, on up to `threads` threads; `thread` < `threads` tells those
  /// apart. The calling thread takes part. All run in the default
  /// floating-point mode. `body` does not throw; where it calls this itself,
  /// one thread does the work.
  template <typename Body>
  void parallelFor(unsigned threads, std::int64_t count, Body &&body) {
    using Plain = std::remove_reference_t<Body>;
    run(
        threads, count,
        [](void *context, std::int64_t index, unsigned thread) {
          (*static_cast<Plain *>(context))(index, thread);
        },
        const_cast<void *>(static_cast<const void *>(std::addressof(body))));
  }

  /// Puts all threads of the team into the default floating-point mode, for
  /// code that forks it by other means.
  void setModeOfTeam(unsigned threads);

  /// The number of threads that OpenMP code (oneDNN) called from this thread
  /// will use; returns the one before, 0 where there is no OpenMP.
  virtual unsigned exchangeOpenMPThreads(unsigned threads) = 0;

  using Call = void (*)(void *context, std::int64_t index, unsigned thread);
  void run(unsigned threads, std::int64_t count, Call call, void *context);

protected:
  /// Calls `work(data)` on `threads` threads at the same time and waits.
  virtual void fork(unsigned threads, void (*work)(void *), void *data) = 0;
};

/// Sets the OpenMP thread count while in scope.
class OpenMPThreads {
public:
  explicit OpenMPThreads(unsigned threads)
      : saved(ThreadTeam::get().exchangeOpenMPThreads(threads)) {}
  ~OpenMPThreads() {
    if (saved != 0)
      ThreadTeam::get().exchangeOpenMPThreads(saved);
  }
  OpenMPThreads(const OpenMPThreads &) = delete;

private:
  unsigned saved;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_THREADTEAM_H
