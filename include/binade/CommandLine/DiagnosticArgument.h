//===- DiagnosticArgument.h - Value of --diag -------------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H
#define BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H

#include "binade/Container/Error.h"

namespace binade {

/// Returns the value of --diag. The command line may be invalid otherwise.
DiagnosticFormat findDiagnosticFormat(int argc, char **argv);

} // namespace binade

#endif // BINADE_COMMANDLINE_DIAGNOSTICARGUMENT_H
