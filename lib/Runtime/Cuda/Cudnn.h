//===- Cudnn.h - cuDNN, loaded at run time ----------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_CUDNN_H
#define BINADE_RUNTIME_CUDA_CUDNN_H

#include "CudnnApi.h"
#include "CudnnGraphApi.h"
#include "Device.h"

namespace binade::cuda {

namespace cudnn {
/// The functions of cuDNN.
struct Table {
#define BINADE_DECLARE(NAME, SYMBOL, PARAMETERS)                               \
  Function<int PARAMETERS> NAME = {#SYMBOL};
  BINADE_CUDNN_FUNCTIONS(BINADE_DECLARE)
  BINADE_CUDNN_GRAPH_FUNCTIONS(BINADE_DECLARE)
#undef BINADE_DECLARE
  std::size_t (*getVersion)() = nullptr;
  const char *(*getErrorString)(int) = nullptr;
};
} // namespace cudnn

/// cuDNN with a handle for one device's stream.
class Cudnn {
public:
  /// Opens libcudnn.so.9 or .8. An error (exit code 6) lists the names that
  /// were tried.
  static Result<std::shared_ptr<Cudnn>> open(Device &device);
  Cudnn(const Cudnn &) = delete;
  ~Cudnn();

  const Device &getDevice() const { return device; }
  /// Returns the version, such as 92400 for 9.24.0.
  std::size_t getVersion() const { return version; }
  /// Returns the version as text, such as "9.24.0".
  std::string formatVersion() const { return formatVersion(version); }
  static std::string formatVersion(std::size_t version);

private:
  friend class CudnnAttention;
  friend class CudnnConvolution;
  friend class CudnnGraph;
  friend class CudnnPlan;
  explicit Cudnn(Device &device) : device(device) {}
  Error describe(int status, std::string_view call) const;
  template <typename... Parameters, typename... Arguments>
  Result<void> call(const Function<int(Parameters...)> &function,
                    Arguments... arguments) const {
    if (device.hasFailed())
      return device.getFailure();
    if (int status = function.address(arguments...))
      return describe(status, function.name);
    return {};
  }

  Device &device;
  cudnn::Table functions;
  cudnn::Handle *handle = nullptr;
  std::size_t version = 0;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_CUDNN_H
