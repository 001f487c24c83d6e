//===- DiagnosticArgument.h - the form that errors have ---------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H
#define BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H

#include "binade/Container/Error.h"

namespace binade {

/// What --diag asks for on a command line that may not be legal otherwise.
DiagnosticFormat findDiagnosticFormat(int argc, char **argv);

} // namespace binade

#endif // BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H
