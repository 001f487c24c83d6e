//===- Check.h - Checks that hold for every input ---------------*- C++ -*-===//

#ifndef BINADE_TEST_FUZZ_CHECK_H
#define BINADE_TEST_FUZZ_CHECK_H

#include "binade/Container/Error.h"

namespace binade::fuzz {

/// Aborts the process with message `what` unless `holds`.
void check(bool holds, const char *what);

/// Checks that an error has a file, a printable message, and the exit code of a
/// rejected, unreadable or too large file.
void checkError(const Error &error);

} // namespace binade::fuzz

#endif // BINADE_TEST_FUZZ_CHECK_H
