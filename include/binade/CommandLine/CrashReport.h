//===- CrashReport.h - the last words of a program --------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_CRASHREPORT_H
#define BINADE_COMMANDLINE_CRASHREPORT_H

#include "binade/Container/Error.h"
#include <functional>
#include <string_view>

namespace binade {

/// Reports signals that mean a bug (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT)
/// on standard error before they end the program: the signal, what the program
/// was doing (`Activity`) and its command line, as text or with `--diag=json`
/// as an object. A stack that overflowed is reported too. The signal is then
/// left to the handler that was there before, by default the system's, so that
/// the program ends by it and may leave a core file.
///
/// Called once, first thing in `main`, by the thread that does the work.
void reportCrashes(std::string_view program, int argc, char **argv);

/// Runs `body` and gives its exit code. An exception that leaves it is reported
/// in the form `format`: one of memory with exit code 7, any other, which is a
/// bug, with 70.
int runCommand(std::string_view program, DiagnosticFormat format,
               const std::function<int()> &body);

} // namespace binade

#endif // BINADE_COMMANDLINE_CRASHREPORT_H
