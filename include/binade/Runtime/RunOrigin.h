//===- RunOrigin.h - What a run was made of, from its run.json --*- C++ -*-===//

#ifndef BINADE_RUNTIME_RUNORIGIN_H
#define BINADE_RUNTIME_RUNORIGIN_H

#include "binade/Container/Error.h"

namespace binade {

/// The last command that trained a run.
struct RunOrigin {
  std::string model;  ///< Path from where this process is.
  std::string sha256; ///< Of that file, when it was read.
  std::vector<std::string> words;

  /// The values that an option was given, in order.
  std::vector<std::string> getValues(std::string_view option) const;
};

/// What run.json of the run says to which `path` belongs: its directory, a
/// file in it, or a checkpoint. Nothing where there is no such file.
Result<std::optional<RunOrigin>> findRunOrigin(const std::string &path);

} // namespace binade

#endif // BINADE_RUNTIME_RUNORIGIN_H
