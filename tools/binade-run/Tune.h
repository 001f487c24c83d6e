//===- Tune.h - Select fastest GPU matmul algorithms ------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_RUN_TUNE_H
#define BINADE_TOOLS_BINADE_RUN_TUNE_H

#include "binade/CommandLine/CommandLine.h"
#include "binade/Runtime/Program.h"

namespace binade {

struct TuneCommand {
  std::string bundle, out;
  LoadOptions load;
  DiagnosticFormat format = DiagnosticFormat::Text;

  void add(CLI::App &app);
  /// Accepts every combination of options.
  void check(const CLI::App &) const {}
  Result<void> resume(const CLI::App &,
                      const std::vector<std::string> &) const {
    return {};
  }
  Result<int> run();
};

} // namespace binade

#endif // BINADE_TOOLS_BINADE_RUN_TUNE_H
