//===- ThreadTeam.h - Thread pool of the process ----------------*- C++ -*-===//
// Kernels run on the OpenMP team that oneDNN uses, because a second pool would
// compete with its spinning threads for the cores. libgomp is loaded at run
// time; without it, and so without oneDNN, a pool of std::thread is used.
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

  /// Returns the process's team: libgomp's, or else a pool of std::thread.
  static ThreadTeam &get();
  /// Returns the pool of std::thread, for tests.
  static ThreadTeam &getWithoutLibgomp();

  virtual std::string_view getName() const = 0;
  /// Whether idle threads sleep, so that it takes tens of microseconds to wake
  /// them.
  virtual bool sleeps() const = 0;

  /// Calls `body(index, thread)` once for every index in [0, count), in any
  /// order, on up to `threads` threads including the caller; `thread` is less
  /// than `threads` and identifies the thread. All threads run in the default
  /// floating-point mode. `body` must not throw. With libgomp, a nested call
  /// runs on one thread; the pool of std::thread does not support nested calls.
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

  /// Sets the default floating-point mode in all threads of the team, for code
  /// that forks the team itself, such as oneDNN.
  void setModeOfTeam(unsigned threads);

  /// Binds each thread of a team of `threads` threads, the caller included, to
  /// a core of its own, for as long as it lives. Returns false, and does
  /// nothing, if there are fewer cores.
  bool pin(unsigned threads);

  /// Sets the number of threads of OpenMP code (oneDNN) that is called from
  /// this thread. Returns the previous number; 0 without OpenMP.
  virtual unsigned exchangeOpenMPThreads(unsigned threads) = 0;

  using Call = void (*)(void *context, std::int64_t index, unsigned thread);
  void run(unsigned threads, std::int64_t count, Call call, void *context);

protected:
  /// Calls `work(data)` on `threads` threads in parallel and waits for them.
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
