//===- CudnnConvolution.h - Convolutions by cuDNN ---------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_CUDNNCONVOLUTION_H
#define BINADE_RUNTIME_CUDA_CUDNNCONVOLUTION_H

#include "Cudnn.h"
#include "binade/Plan/Plan.h"
#include <vector>

namespace binade::cuda {

/// A plan's convolution or gradient, with the types of its tensors.
struct ConvolutionProblem {
  const plan::Convolution *record = nullptr;
  /// F32, F16 or BF16, one for all; sums are f32.
  DType x = DType::F32, weight = DType::F32, y = DType::F32;
  DType bias = DType::F32;
};

/// Of a run; 0 for what the problem does not have.
struct ConvolutionAddresses {
  Address x = 0, weight = 0, y = 0, bias = 0;
  Address workspace = 0; ///< A multiple of 256.
};

/// A convolution that is ready to run: by an algorithm that adds up products,
/// and repeats its bits.
class CudnnConvolution {
public:
  /// Asks the library for its best one within `workspaceLimit` bytes. What it
  /// does not compute so is an error (exit code 6).
  static Result<CudnnConvolution> create(std::shared_ptr<Cudnn> library,
                                         const ConvolutionProblem &problem,
                                         std::uint64_t workspaceLimit);

  std::uint64_t getWorkspaceBytes() const { return workspaceBytes; }
  /// For people: "cudnn 9.24.0 algorithm 1".
  std::string describe() const;

  /// Puts the convolution on the device's stream.
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
  /// The workspace of an algorithm for the problem as it is described.
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
