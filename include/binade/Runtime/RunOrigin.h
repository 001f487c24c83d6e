//===- RunOrigin.h - Command and model of a run -----------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_RUNORIGIN_H
#define BINADE_RUNTIME_RUNORIGIN_H

#include "binade/Container/Error.h"

namespace binade {

/// The last command that trained a run, as its run.json records it.
struct RunOrigin {
  std::string model;              ///< Path of the model.
  std::string sha256;             ///< Hash of the model when it was trained.
  std::vector<std::string> words; ///< The command line.

  /// Returns the values of an option, in order.
  std::vector<std::string> getValues(std::string_view option) const;
};

/// Reads the run.json of the run to which `path` belongs; `path` is the run
/// directory, a file in it, or a checkpoint. Returns nothing if there is no
/// run.json, or it does not name a model.
Result<std::optional<RunOrigin>> findRunOrigin(const std::string &path);

} // namespace binade

#endif // BINADE_RUNTIME_RUNORIGIN_H
