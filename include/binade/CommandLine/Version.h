//===- Version.h - The version that programs print --------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_VERSION_H
#define BINADE_COMMANDLINE_VERSION_H

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace binade {

/// Returns Binade's version and commit, `more` (empty, or lines that end with a
/// newline), and the libraries that are found on this machine.
std::string describeVersion(const std::string &more = "");

/// Adds -V and --version, which print `describeVersion(more)`.
void addVersion(CLI::App &app, std::string more = "");

/// For programs that parse with LLVM, which know --version only: replaces
/// arguments that are "-V".
void replaceShortVersion(int argc, char **argv);

} // namespace binade

#endif // BINADE_COMMANDLINE_VERSION_H
