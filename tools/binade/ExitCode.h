//===- ExitCode.h - the exit code of a command ------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EXITCODE_H
#define BINADE_TOOLS_BINADE_EXITCODE_H

/// The exit code of a command that returned `code`: 70 if `Diagnostics` printed
/// an error that is a bug of Binade, otherwise `code`.
int getExitCode(int code);

#endif // BINADE_TOOLS_BINADE_EXITCODE_H
