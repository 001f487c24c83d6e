//===- CudnnConvolution.h - Convolutions with cuDNN -------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_CUDNNCONVOLUTION_H
#define BINADE_RUNTIME_CUDA_CUDNNCONVOLUTION_H

#include "Cudnn.h"
#include "binade/Plan/Plan.h"
#include <vector>

namespace binade::cuda {

/// A plan's convolution or gradient, with the types of its tensors.
struct ConvolutionProblem {
  const plan::Convolution *record = nullptr;
  /// F32, F16 or BF16, the same for all three; sums are f32.
  DType x = DType::F32, weight = DType::F32, y = DType::F32;
  DType bias = DType::F32;
};

/// The addresses for a run; 0 for operands that the problem does not have.
struct ConvolutionAddresses {
  Address x = 0, weight = 0, y = 0, bias = 0;
  Address workspace = 0; ///< A multiple of 256.
};

/// A convolution with its algorithm, which is deterministic and uses no FFT or
/// Winograd transform.
class CudnnConvolution {
public:
  /// Selects cuDNN's best such algorithm within `workspaceLimit` bytes; an
  /// error (exit code 6) if there is none.
  static Result<CudnnConvolution> create(std::shared_ptr<Cudnn> library,
                                         const ConvolutionProblem &problem,
                                         std::uint64_t workspaceLimit);

  std::uint64_t getWorkspaceBytes() const { return workspaceBytes; }
  /// Returns text for reports: "cudnn 9.24.0 algorithm 1".
  std::string describe() const;

  /// Enqueues the convolution on the device's stream.
  Result<void> run(const ConvolutionAddresses &addresses,
                   const Label &label) const;

private:
  template <typename T> using Released = std::unique_ptr<T, int (*)(T *)>;
  CudnnConvolution(std::shared_ptr<Cudnn> library,
                   plan::Convolution::Direction direction)
      : library(std::move(library)), direction(direction) {}
  Result<void> describeTensor(Released<cudnn::TensorDesc> &tensor, int type,
                              int format, const std::vector<int> &sizes);
  Result<void> describeProblem(const ConvolutionProblem &problem);
  Result<std::vector<cudnn::AlgorithmResult>> list() const;
  /// Returns the workspace size of an algorithm for this problem.
  Result<std::uint64_t> measure(int candidate) const;
  Result<void> choose(DType type, std::uint64_t workspaceLimit);

  std::shared_ptr<Cudnn> library;
  plan::Convolution::Direction direction;
  Released<cudnn::TensorDesc> x = {nullptr, nullptr}, y = {nullptr, nullptr},
                              bias = {nullptr, nullptr};
  Released<cudnn::FilterDesc> weight = {nullptr, nullptr};
  Released<cudnn::ConvolutionDesc> convolution = {nullptr, nullptr};
  int algorithm = 0;
  std::uint64_t workspaceBytes = 0;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_CUDNNCONVOLUTION_H
