//===- CrashReport.h - Report of crashes ------------------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_CRASHREPORT_H
#define BINADE_COMMANDLINE_CRASHREPORT_H

#include "binade/Container/Error.h"
#include <functional>
#include <string_view>

namespace binade {

/// Reports signals that mean a bug (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT)
/// on standard error before they end the program: the signal, the current
/// activities (`Activity`) and the command line, as text or, with
/// `--diag=json`, as an object. A stack overflow is reported too. The signal
/// then goes to the handler that was installed before, by default the system's,
/// which ends the program and may write a core file.
///
/// `main` calls this once, before anything else, on the thread that does the
/// work.
void reportCrashes(std::string_view program, int argc, char **argv);

/// Runs `body` and returns its exit code. Reports exceptions in `format`:
/// std::bad_alloc with exit code 7, any other, which is a bug, with 70.
int runCommand(std::string_view program, DiagnosticFormat format,
               const std::function<int()> &body);

} // namespace binade

#endif // BINADE_COMMANDLINE_CRASHREPORT_H
