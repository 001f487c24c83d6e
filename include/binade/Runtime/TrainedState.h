//===- TrainedState.h - Trained weights read from files ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_TRAINEDSTATE_H
#define BINADE_RUNTIME_TRAINEDSTATE_H

#include "binade/Runtime/QuantizedState.h"
#include <set>

namespace binade {

/// The parameters and buffers of a run, a checkpoint or any safetensors file. A
/// 16-bit parameter is read in full precision: as its master weight, as the f32
/// value that it forms with its remainder, or corrected by its compensation.
class TrainedState {
public:
  /// Opens a run directory (its final.safetensors), a checkpoint, or a file.
  /// `checkpoint` selects a checkpoint of the run instead, by step or by path.
  static Result<TrainedState> open(const std::string &path,
                                   const std::string &checkpoint = "");

  /// Returns the names of parameters and buffers, in the order of the files.
  std::vector<std::string> getNames() const;
  /// Returns null if there is no parameter or buffer of that name.
  const TensorInfo *find(std::string_view name) const;
  /// Returns the names of all tensors in the files, including optimizer states.
  std::vector<std::string> getAllNames() const;
  const TensorInfo *findAny(std::string_view name) const;
  /// Returns the names of master weights, remainders and compensations.
  std::set<std::string> getCompanionNames() const;
  const QuantizedStateMap &getQuantizedStates() const { return quantized; }
  /// Returns the number of completed steps, if the files contain it.
  std::optional<std::int64_t> getStep() const;
  /// Returns the path of the file or checkpoint, for messages.
  const std::string &getPath() const { return path; }

  /// Returns the files, of which a checkpoint may have several.
  const std::vector<Safetensors> &getFiles() const { return files; }

  /// Returns the values in `dtype`, which is the tensor's type, F32, F16 or
  /// BF16.
  Result<std::vector<std::byte>> read(std::string_view name, DType dtype) const;
  /// The same for evaluation: the sum of the parameter and its evaluation
  /// offset, if the optimizer has this state.
  Result<std::vector<std::byte>> readForEvaluation(std::string_view name,
                                                   DType dtype) const;

private:
  TrainedState(std::vector<Safetensors> files, QuantizedStateMap quantized,
               std::string path)
      : files(std::move(files)), quantized(std::move(quantized)),
        path(std::move(path)) {}

  struct Entry {
    const Safetensors *file = nullptr;
    const TensorInfo *info = nullptr;
  };
  Entry locate(std::string_view name) const;
  Result<std::vector<float>> widen(std::string_view name,
                                   const Entry &parameter) const;
  Result<std::vector<float>> readFloats(std::string_view name,
                                        const Entry &entry) const;

  std::vector<Safetensors> files;
  QuantizedStateMap quantized;
  std::string path;
};

} // namespace binade

#endif // BINADE_RUNTIME_TRAINEDSTATE_H
