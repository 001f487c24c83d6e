//===- DiagnosticArgument.h - the form that errors have ---------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H
#define BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H

#include "binade/Container/Error.h"

namespace binade {

/// The value of --diag on a command line that need not be valid otherwise.
DiagnosticFormat findDiagnosticFormat(int argc, char **argv);

} // namespace binade

#endif // BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H
