//===- CAPI.h - Helpers of the C interface ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CAPI_CAPI_H
#define BINADE_LIB_RUNTIME_CAPI_CAPI_H

#include "binade/Container/Printable.h"
#include "binade/Runtime/Program.h"
#include "binade/Runtime/binade.h"
#include <new>

struct binade_program {
  binade::Program program;
  /// Copy of a bundle that was in memory.
  std::shared_ptr<const std::vector<std::byte>> file;
  /// Created at the first access to records or the arena.
  std::unique_ptr<binade::RecordRunner> runner = {};
};

namespace binade::capi {

/// Stores the message for `binade_last_error`, and returns the exit code.
int fail(const Error &error);
int usage(std::string message);

/// Returns the exit code of a call that may fail.
inline int finish(const Result<void> &done) {
  return done ? +ExitCode::Ok : fail(done.error());
}

/// Returns the exit code of `body`; converts exceptions into errors.
template <typename Body> int guard(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(Error{"binade", "out of memory", ExitCode::Resources});
  } catch (const std::exception &exception) {
    return fail(
        Error{"binade", printable(exception.what()), ExitCode::Internal});
  }
}

} // namespace binade::capi

#endif // BINADE_LIB_RUNTIME_CAPI_CAPI_H
