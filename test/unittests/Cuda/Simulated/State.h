//===- State.h - what a process has of the simulated driver -----*- C++ -*-===//

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
  bool isBroken = false; ///< The capture.
};

namespace simulated {

/// Memory of the host that the device reads by itself.
using Pinned = std::vector<char>;

/// All that a process has of the driver.
struct State {
  std::map<std::string, std::uint64_t> settings;
  std::string text; ///< Of the settings, when all began.
  int contexts = 0; ///< Retained, and not yet released.
  std::map<Address, std::vector<char>> memory;
  std::map<const void *, Pinned> pinned;
  std::map<CUfunc_st *, int> sharedBytes;
  std::map<const void *, std::shared_ptr<void>> objects;
  std::set<CUstream_st *> streams;
  Address next = kFirst;
  std::uint64_t allocated = 0, kernels = 0;
  int failure = 0, callsAfterFailure = 0;
  bool isInitialized = false;
  CUctx_st context;

  /// No address that the host has.
  static constexpr Address kFirst = Address(0x30) << 40;
};

State &getState();

/// Bytes of a device.
std::size_t getTotal();

/// Called first by every function of the driver. Returns the status of a
/// context that has failed or is not initialized, otherwise 0.
int enter();

/// Does what is next on the stream, and all of it; what fails loses the
/// context.
int step(CUstream_st *stream);
int run(CUstream_st *stream);

/// The same of a function that does not return before: ends the process where a
/// device would wait for ever.
int drain(CUstream_st *stream);

/// Stores an object in `out`. The state owns it, so that a test that does not
/// destroy it does not leak it.
template <typename T> int hand(T **out, std::shared_ptr<T> object) {
  *out = object.get();
  getState().objects[object.get()] = std::move(object);
  return status::Success;
}
/// Takes it back. An object that there is not is an error.
inline int takeBack(const void *object) {
  return getState().objects.erase(object) ? status::Success
                                          : status::InvalidValue;
}

} // namespace simulated

#endif // BINADE_TEST_CUDA_STATE_H
