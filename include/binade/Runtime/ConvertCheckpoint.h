//===- ConvertCheckpoint.h - A run under another policy ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CONVERTCHECKPOINT_H
#define BINADE_RUNTIME_CONVERTCHECKPOINT_H

#include "binade/Runtime/Program.h"

namespace binade {

struct Converted {
  std::string from, to; ///< Paths of checkpoints.
  std::size_t tensors = 0;
  std::size_t requantized = 0;      ///< States in other codes, or in none.
  std::vector<std::string> initial; ///< State that keeps its initial value.
  std::vector<std::string> leftOut; ///< Of the old checkpoint.
  std::string policyFrom, policyTo;
};

/// A state on its way from one format into another.
struct Requantization {
  std::string name;
  std::string from, to; ///< `#binade.quantized<...>`; empty for F32.
  std::vector<std::int64_t> shape;
  std::vector<std::vector<std::byte>> parts; ///< Of `from`.
};

/// Gives each state the parts of `to` in place of those of `from`. What formats
/// mean is the compiler's to say.
using Requantize = std::function<Result<void>(std::span<Requantization>)>;

/// Writes a checkpoint (`from`, or the newest of the run in `from`) for the
/// program of `bundle` as the first of the run in `directory`: parameters,
/// buffers and states in the program's formats, and everything else as it was.
/// A parameter of 16 bits goes by what is kept beside it (see `TrainedState`).
/// A parameter, buffer or state that the checkpoint lacks or has in another
/// shape is an error that lists all; so is a directory with checkpoints.
Result<Converted> convertCheckpoint(const std::string &from,
                                    const std::string &bundle,
                                    const std::string &directory,
                                    const Requantize &requantize);

/// The same for a run that goes on under another policy: the newest checkpoint
/// of the run in `directory` becomes one of `program`, in the place of what it
/// was. `keep` checkpoints are left.
Result<Converted> switchRun(Program &program, const std::string &directory,
                            std::int64_t keep, const Requantize &requantize);

} // namespace binade

#endif // BINADE_RUNTIME_CONVERTCHECKPOINT_H
