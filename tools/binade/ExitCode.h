//===- ExitCode.h - what a command ends with --------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EXITCODE_H
#define BINADE_TOOLS_BINADE_EXITCODE_H

/// The exit code of a command that gave up with `code`: that of bugs, 70, if an
/// error was printed that is one (`Diagnostics`), otherwise `code`.
int getExitCode(int code);

#endif // BINADE_TOOLS_BINADE_EXITCODE_H
