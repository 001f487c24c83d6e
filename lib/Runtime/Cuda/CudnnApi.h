//===- CudnnApi.h - Declarations of cuDNN -----------------------*- C++ -*-===//
// The declarations are repeated here so that Binade can be built without CUDA.
// The constants are those of cudnn_ops.h, cudnn_cnn.h and cudnn_graph.h of
// version 9; version 8 has the same functions.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_CUDNNAPI_H
#define BINADE_RUNTIME_CUDA_CUDNNAPI_H

#include <cstddef>

struct CUstream_st;

namespace binade::cuda::cudnn {

struct Handle;
struct TensorDesc;
struct FilterDesc;
struct ConvolutionDesc;

/// The properties of an algorithm, for all directions of a convolution.
struct AlgorithmResult {
  int algorithm;
  int status;
  float milliseconds;
  std::size_t workspaceBytes;
  int determinism;
  int mathType;
  int reserved[3];
};

// Lists every function of type int(...) that is used: name here, symbol,
// parameters.
#define BINADE_CUDNN_FUNCTIONS(X)                                              \
  X(create, cudnnCreate, (Handle **))                                          \
  X(destroy, cudnnDestroy, (Handle *))                                         \
  X(setStream, cudnnSetStream, (Handle *, CUstream_st *))                      \
  X(tensorCreate, cudnnCreateTensorDescriptor, (TensorDesc **))                \
  X(tensorSet, cudnnSetTensorNdDescriptorEx,                                   \
    (TensorDesc *, int, int, int, const int *))                                \
  X(tensorDestroy, cudnnDestroyTensorDescriptor, (TensorDesc *))               \
  X(filterCreate, cudnnCreateFilterDescriptor, (FilterDesc **))                \
  X(filterSet, cudnnSetFilterNdDescriptor,                                     \
    (FilterDesc *, int, int, int, const int *))                                \
  X(filterDestroy, cudnnDestroyFilterDescriptor, (FilterDesc *))               \
  X(convolutionCreate, cudnnCreateConvolutionDescriptor, (ConvolutionDesc **)) \
  X(convolutionSet, cudnnSetConvolutionNdDescriptor,                           \
    (ConvolutionDesc *, int, const int *, const int *, const int *, int, int)) \
  X(setGroups, cudnnSetConvolutionGroupCount, (ConvolutionDesc *, int))        \
  X(setMath, cudnnSetConvolutionMathType, (ConvolutionDesc *, int))            \
  X(convolutionDestroy, cudnnDestroyConvolutionDescriptor,                     \
    (ConvolutionDesc *))                                                       \
  X(listForward, cudnnGetConvolutionForwardAlgorithm_v7,                       \
    (Handle *, TensorDesc *, FilterDesc *, ConvolutionDesc *, TensorDesc *,    \
     int, int *, AlgorithmResult *))                                           \
  X(listInputGrad, cudnnGetConvolutionBackwardDataAlgorithm_v7,                \
    (Handle *, FilterDesc *, TensorDesc *, ConvolutionDesc *, TensorDesc *,    \
     int, int *, AlgorithmResult *))                                           \
  X(listWeightGrad, cudnnGetConvolutionBackwardFilterAlgorithm_v7,             \
    (Handle *, TensorDesc *, TensorDesc *, ConvolutionDesc *, FilterDesc *,    \
     int, int *, AlgorithmResult *))                                           \
  X(sizeForward, cudnnGetConvolutionForwardWorkspaceSize,                      \
    (Handle *, TensorDesc *, FilterDesc *, ConvolutionDesc *, TensorDesc *,    \
     int, std::size_t *))                                                      \
  X(sizeInputGrad, cudnnGetConvolutionBackwardDataWorkspaceSize,               \
    (Handle *, FilterDesc *, TensorDesc *, ConvolutionDesc *, TensorDesc *,    \
     int, std::size_t *))                                                      \
  X(sizeWeightGrad, cudnnGetConvolutionBackwardFilterWorkspaceSize,            \
    (Handle *, TensorDesc *, TensorDesc *, ConvolutionDesc *, FilterDesc *,    \
     int, std::size_t *))                                                      \
  X(forward, cudnnConvolutionForward,                                          \
    (Handle *, const void *, TensorDesc *, const void *, FilterDesc *,         \
     const void *, ConvolutionDesc *, int, void *, std::size_t, const void *,  \
     TensorDesc *, void *))                                                    \
  X(inputGrad, cudnnConvolutionBackwardData,                                   \
    (Handle *, const void *, FilterDesc *, const void *, TensorDesc *,         \
     const void *, ConvolutionDesc *, int, void *, std::size_t, const void *,  \
     TensorDesc *, void *))                                                    \
  X(weightGrad, cudnnConvolutionBackwardFilter,                                \
    (Handle *, const void *, TensorDesc *, const void *, TensorDesc *,         \
     const void *, ConvolutionDesc *, int, void *, std::size_t, const void *,  \
     FilterDesc *, void *))                                                    \
  X(add, cudnnAddTensor,                                                       \
    (Handle *, const void *, TensorDesc *, const void *, const void *,         \
     TensorDesc *, void *))

/// cudnnStatus_t. Version 9 counts kinds of failures in thousands.
namespace status {
enum : int {
  Success = 0,
  ExecutionFailed8 = 8,
  BadParam = 2000,
  NotSupported = 3000,
  ExecutionFailed = 5000,
  AfterExecutionFailed = 6000,
};
} // namespace status

/// cudnnDataType_t
namespace type {
enum : int { F32 = 0, F16 = 2, BF16 = 9 };
} // namespace type

/// cudnnTensorFormat_t
namespace format {
enum : int { ChannelsFirst = 0, ChannelsLast = 1 };
} // namespace format

/// cudnnMathType_t
namespace math {
enum : int { TensorOp = 1, Fma = 3 };
} // namespace math

inline constexpr int kCrossCorrelation = 1; ///< cudnnConvolutionMode_t
inline constexpr int kDeterministic = 1;    ///< cudnnDeterminism_t

// The last algorithm without an FFT or Winograd transform:
// cudnnConvolutionFwdAlgo_t up to DIRECT, cudnnConvolutionBwdDataAlgo_t and
// cudnnConvolutionBwdFilterAlgo_t up to ALGO_1. ALGO_3 of the latter has no
// transform, either, but is not deterministic.
inline constexpr int kLastForward = 3, kLastGradient = 1;

} // namespace binade::cuda::cudnn

#endif // BINADE_RUNTIME_CUDA_CUDNNAPI_H
