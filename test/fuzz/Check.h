//===- Check.h - What holds whatever a file is ------------------*- C++ -*-===//

#ifndef BINADE_TEST_FUZZ_CHECK_H
#define BINADE_TEST_FUZZ_CHECK_H

#include "binade/Container/Error.h"

namespace binade::fuzz {

/// Ends the process with `what` unless `holds`.
void check(bool holds, const char *what);

/// An error has a file, a message that can be printed, and one of the exit
/// codes for what a file can be: rejected, unreadable, or too large.
void checkError(const Error &error);

} // namespace binade::fuzz

#endif // BINADE_TEST_FUZZ_CHECK_H
