//===- ConvertCheckpoint.h - Checkpoints for another policy -----*- C++ -*-===//

#ifndef BINADE_RUNTIME_CONVERTCHECKPOINT_H
#define BINADE_RUNTIME_CONVERTCHECKPOINT_H

#include "binade/Runtime/Program.h"

namespace binade {

/// What a conversion of a checkpoint did.
struct Converted {
  std::string from, to; ///< Paths of checkpoints.
  std::size_t tensors = 0;
  std::size_t requantized = 0; ///< States whose quantized format changed.
  /// Training state that the checkpoint lacks and that keeps its initial value.
  std::vector<std::string> initial;
  /// Tensors of the old checkpoint that the program does not use.
  std::vector<std::string> unused;
  std::string policyFrom, policyTo;
};

/// A state to be converted from one quantized format to another.
struct Requantization {
  std::string name;
  std::string from, to; ///< `#binade.quantized<...>`; empty for F32.
  std::vector<std::int64_t> shape;
  /// The tensors that store the state: before the call of Requantize in the
  /// format `from`, after it in the format `to`.
  std::vector<std::vector<std::byte>> parts;
};

/// Replaces the parts of each state by those of the format `to`. The compiler
/// implements it, because the runtime does not know the formats.
using Requantize = std::function<Result<void>(std::span<Requantization>)>;

/// Converts a checkpoint (`from`, or the newest of the run in `from`) to the
/// formats of the program in `bundle`, and writes it as the first checkpoint of
/// a new run in `directory`. Parameters, buffers and states change their
/// format; everything else is copied. A 16-bit parameter is converted from the
/// f32 value that its master weight, remainder or compensation gives (see
/// `TrainedState`). It is an error, which lists all such tensors, if the
/// checkpoint lacks a parameter, buffer or state or has it in another shape. It
/// is also an error if `directory` already has checkpoints.
Result<Converted> convertCheckpoint(const std::string &from,
                                    const std::string &bundle,
                                    const std::string &directory,
                                    const Requantize &requantize);

/// Replaces the newest checkpoint of the run in `directory` by one in the
/// formats of `program`, so that the run resumes under another policy. Removes
/// all but the newest `keep` checkpoints.
Result<Converted> switchRun(Program &program, const std::string &directory,
                            std::int64_t keep, const Requantize &requantize);

} // namespace binade

#endif // BINADE_RUNTIME_CONVERTCHECKPOINT_H
