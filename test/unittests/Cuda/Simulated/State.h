//===- State.h - State of the simulated driver ------------------*- C++ -*-===//

#ifndef BINADE_TEST_CUDA_STATE_H
#define BINADE_TEST_CUDA_STATE_H

#include "Simulated.h"
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>

struct CUctx_st {};
struct CUevent_st {
  std::optional<std::chrono::steady_clock::time_point> time;
};
struct CUgraph_st {
  std::vector<simulated::Task> tasks;
};
struct CUgraphExec_st {
  std::vector<simulated::Task> tasks;
};
struct CUstream_st {
  std::deque<simulated::Task> tasks;
  std::unique_ptr<CUgraph_st> capture;
  int mode = 0;          ///< How the capture restricts other calls.
  bool isBroken = false; ///< Whether the capture is invalid.
};

namespace simulated {

/// Pinned memory of the host, which the device accesses directly.
using Pinned = std::vector<char>;

/// The state of the driver, one for each process.
struct State {
  std::map<std::string, std::uint64_t> settings;
  std::string text; ///< The settings that cuInit read.
  int contexts = 0; ///< Contexts that are retained and not yet released.
  std::map<Address, std::vector<char>> memory;
  std::map<const void *, Pinned> pinned;
  std::map<CUfunc_st *, int> sharedBytes;
  std::map<const void *, std::shared_ptr<void>> objects;
  CUstream_st defaultStream;
  std::set<CUstream_st *> streams;
  int captureMode = 0; ///< That of the thread.
  Address next = kFirst;
  std::uint64_t allocated = 0, kernels = 0;
  int failure = 0, callsAfterFailure = 0;
  bool isInitialized = false;
  CUctx_st context;

  /// Not a valid address of the host.
  static constexpr Address kFirst = Address(0x30) << 40;
};

State &getState();

/// Returns the bytes of memory of a device.
std::size_t getTotal();

/// Called first by every function of the driver. Returns the status of a
/// context that has failed or is not initialized, otherwise 0.
int enter();

/// Called by functions that allocate or wait. While a stream is capturing in
/// the mode `global`, and the thread's mode is not `relaxed`, breaks the
/// capture and returns an error.
int restrict();

/// `step` runs the next task of the stream, `run` all of them. The context is
/// lost if a task fails.
int step(CUstream_st *stream);
int run(CUstream_st *stream);

/// Runs all tasks of the stream for a function that blocks until they are done.
/// Aborts the process if a task hangs.
int drain(CUstream_st *stream);

/// Stores an object in `out`. The state owns it, so that a test that does not
/// destroy it does not leak it.
template <typename T> int storeObject(T **out, std::shared_ptr<T> object) {
  *out = object.get();
  getState().objects[object.get()] = std::move(object);
  return status::Success;
}
/// Destroys an object. An unknown object is an error.
inline int destroyObject(const void *object) {
  return getState().objects.erase(object) ? status::Success
                                          : status::InvalidValue;
}

} // namespace simulated

#endif // BINADE_TEST_CUDA_STATE_H
