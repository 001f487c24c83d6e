//===- TrainedState.h - What a run has learned, from its files --*- C++ -*-===//

#ifndef BINADE_RUNTIME_TRAINEDSTATE_H
#define BINADE_RUNTIME_TRAINEDSTATE_H

#include "binade/Runtime/QuantizedState.h"
#include <set>

namespace binade {

/// Parameters and buffers as a run, a checkpoint or any safetensors file has
/// them. A parameter of 16 bits reads as what training kept of it: with a
/// master or a remainder as the f32 that they give, with a compensation as the
/// sum without what it lost.
class TrainedState {
public:
  /// Opens the directory of a run (its final.safetensors), of a checkpoint, or
  /// a file. `checkpoint` names one of a run instead, by step or by path.
  static Result<TrainedState> open(const std::string &path,
                                   const std::string &checkpoint = "");

  /// Names of parameters and buffers, in the order of the files.
  std::vector<std::string> getNames() const;
  /// Null when there is no parameter or buffer of that name.
  const TensorInfo *find(std::string_view name) const;
  /// Every tensor, what only training needs too, by its name in files.
  std::vector<std::string> getAllNames() const;
  const TensorInfo *findAny(std::string_view name) const;
  /// Names of what is kept beside parameters of 16 bits.
  std::set<std::string> getNamesBeside() const;
  /// The states that are codes.
  const QuantizedStateMap &getQuantizedStates() const { return quantized; }
  /// Steps done, where the files say so.
  std::optional<std::int64_t> getStep() const;
  /// The file, or the checkpoint, for messages.
  const std::string &getPath() const { return path; }

  /// The values in `dtype`, which is the tensor's or a float of 16 or 32 bits.
  Result<std::vector<std::byte>> read(std::string_view name, DType dtype) const;

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

  std::vector<Safetensors> files;
  QuantizedStateMap quantized;
  std::string path;
};

} // namespace binade

#endif // BINADE_RUNTIME_TRAINEDSTATE_H
