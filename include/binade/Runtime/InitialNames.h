//===- InitialNames.h - Names of weights in other files ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_INITIALNAMES_H
#define BINADE_RUNTIME_INITIALNAMES_H

#include "binade/Runtime/Program.h"

namespace binade {

/// Which tensor of a file has the value of each parameter and buffer.
struct InitialNames {
  /// Names in the file by names of the program, where they differ.
  TensorNames names;
  /// A sentence for each way in which names were mapped.
  std::vector<std::string> notes;
  /// Parameters and buffers without a tensor, and tensors that are left over.
  std::vector<std::string> missing, unused;
  bool hasWeights = false; ///< Whether the file has others than states.
  bool hasMatches = false; ///< Whether one of them is in the program.
};

/// Finds the tensors of `file` that are initial values of parameters and
/// buffers of `program`. Equal names come first. For the others, a file may
///   - have one more or one fewer prefix in its names, such as `module.`;
///   - say in its metadata that names are tied, as safetensors.torch.save_model
///     does: the removed name, with the name of the tensor that is stored;
///   - have one tensor left over whose type and shape are those of the only
///     parameter without a value, such as the embedding of a language model
///     that shares it with its last layer.
/// A mapping that is not the only possible one is not applied.
InitialNames matchInitialNames(const Program &program, const Safetensors &file);

/// Returns an error about values that are missing, which lists near names.
Error refuseMissing(const Program &program, const Safetensors &file,
                    const InitialNames &found);

} // namespace binade

#endif // BINADE_RUNTIME_INITIALNAMES_H
