//===- CAPI.h - What the functions for C have in common ---------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CAPI_CAPI_H
#define BINADE_LIB_RUNTIME_CAPI_CAPI_H

#include "binade/Container/Printable.h"
#include "binade/Runtime/Program.h"
#include "binade/Runtime/binade.h"
#include <new>

struct binade_program {
  binade::Program program;
  std::vector<std::byte> file; ///< Of a bundle that was in memory.
  /// Made when a record is first asked for.
  std::unique_ptr<binade::RecordRunner> runner = {};
};

namespace binade::capi {

/// Keeps why for `binade_last_error`, and gives the exit code.
int fail(const Error &error);
int usage(std::string message);

/// Runs `body`, which gives an exit code, and lets no exception out.
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
