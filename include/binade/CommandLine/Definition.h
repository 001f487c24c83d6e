//===- Definition.h - A command line as data --------------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_DEFINITION_H
#define BINADE_COMMANDLINE_DEFINITION_H

namespace CLI {
class App;
} // namespace CLI

namespace binade {

/// Adds a hidden flag --print-definition, which prints the names, help and
/// options of `app` and its subcommands as JSON, and exits. Shell completion
/// and man pages are generated from it (python/binade/definitions.py).
void addDefinition(CLI::App &app);

} // namespace binade

#endif // BINADE_COMMANDLINE_DEFINITION_H
