//===- CublasLtApi.h - Declarations of cuBLASLt -----------------*- C++ -*-===//
// The declarations are repeated here so that Binade can be built without CUDA.
// The constants are those of cublasLt.h, which never changes existing ones.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_CUBLASLTAPI_H
#define BINADE_RUNTIME_CUDA_CUBLASLTAPI_H

#include <array>
#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace binade::cuda::lt {

struct Handle;
struct MatmulDesc;
struct MatrixLayout;
struct Preference;

/// An algorithm with its settings. Opaque; valid for the same version of the
/// library on the same kind of device.
using Algorithm = std::array<std::uint64_t, 8>;

struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};

// Lists every function of type int(...) that is used: name here, symbol,
// parameters.
#define BINADE_CUBLASLT_FUNCTIONS(X)                                           \
  X(create, cublasLtCreate, (Handle **))                                       \
  X(destroy, cublasLtDestroy, (Handle *))                                      \
  X(matmulDescCreate, cublasLtMatmulDescCreate, (MatmulDesc **, int, int))     \
  X(matmulDescDestroy, cublasLtMatmulDescDestroy, (MatmulDesc *))              \
  X(matmulDescSetAttribute, cublasLtMatmulDescSetAttribute,                    \
    (MatmulDesc *, int, const void *, std::size_t))                            \
  X(matrixLayoutCreate, cublasLtMatrixLayoutCreate,                            \
    (MatrixLayout **, int, std::uint64_t, std::uint64_t, std::int64_t))        \
  X(matrixLayoutDestroy, cublasLtMatrixLayoutDestroy, (MatrixLayout *))        \
  X(matrixLayoutSetAttribute, cublasLtMatrixLayoutSetAttribute,                \
    (MatrixLayout *, int, const void *, std::size_t))                          \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, (Preference **))         \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, (Preference *))        \
  X(preferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute,              \
    (Preference *, int, const void *, std::size_t))                            \
  X(getHeuristic, cublasLtMatmulAlgoGetHeuristic,                              \
    (Handle *, MatmulDesc *, MatrixLayout *, MatrixLayout *, MatrixLayout *,   \
     MatrixLayout *, Preference *, int, HeuristicResult *, int *))             \
  X(checkAlgorithm, cublasLtMatmulAlgoCheck,                                   \
    (Handle *, MatmulDesc *, MatrixLayout *, MatrixLayout *, MatrixLayout *,   \
     MatrixLayout *, const Algorithm *, HeuristicResult *))                    \
  X(getConfig, cublasLtMatmulAlgoConfigGetAttribute,                           \
    (const Algorithm *, int, void *, std::size_t, std::size_t *))              \
  X(matmul, cublasLtMatmul,                                                    \
    (Handle *, MatmulDesc *, const void *, const void *, MatrixLayout *,       \
     const void *, MatrixLayout *, const void *, const void *, MatrixLayout *, \
     void *, MatrixLayout *, const Algorithm *, void *, std::size_t,           \
     CUstream_st *))

namespace status {
enum : int {
  Success = 0,
  InvalidValue = 7,
  ExecutionFailed = 13,
  NotSupported = 15,
};
} // namespace status

/// cudaDataType
namespace type {
enum : int { F32 = 0, F16 = 2, BF16 = 14, E4M3 = 28, E5M2 = 29 };
} // namespace type

/// cublasComputeType_t
namespace compute {
enum : int { F32 = 68, FastTf32 = 77 };
} // namespace compute

/// cublasLtMatmulDescAttributes_t
namespace desc {
enum : int {
  TransA = 3,
  TransB = 4,
  Epilogue = 7,
  BiasPointer = 8,
  AuxPointer = 11,
  AuxLd = 12,
  AuxBatchStride = 13,
  AScalePointer = 17,
  BScalePointer = 18,
  DScalePointer = 20,
  AmaxDPointer = 21,
  AuxDataType = 22,
  FastAccumulation = 25,
  BiasDataType = 26,
  AScaleMode = 31,
  BScaleMode = 32,
};
} // namespace desc

/// cublasLtMatrixLayoutAttribute_t
namespace layout {
enum : int { BatchCount = 5, StridedBatchOffset = 6 };
} // namespace layout

/// cublasLtMatmulPreferenceAttributes_t
namespace preference {
enum : int {
  MaxWorkspaceBytes = 1,
  ReductionSchemes = 3, ///< A mask of cublasLtReductionScheme_t; all if unset.
  MinAlignmentA = 5,
  MinAlignmentB = 6,
  MinAlignmentC = 7,
  MinAlignmentD = 8,
};
} // namespace preference

/// cublasLtReductionScheme_t: where split-K partial sums are reduced: in the
/// result, or in scratch memory of the compute or output type.
namespace reduction {
enum : std::uint32_t { InPlace = 1, ComputeType = 2, OutputType = 4 };
} // namespace reduction

/// cublasLtMatmulAlgoConfigAttributes_t
namespace config {
enum : int {
  Id = 0,
  TileId = 1,
  SplitK = 2,
  ReductionScheme = 3,
  CtaSwizzling = 4,
  StagesId = 6,
  InnerShapeId = 7,
  ClusterShapeId = 8,
};
} // namespace config

/// cublasLtEpilogue_t
namespace epilogue {
enum : int {
  Default = 1,
  Bias = 4,
  GeluAux = 160,
  GeluAuxBias = 164,
  DGelu = 192,
  DGeluBGrad = 208,
  BGradA = 256,
  BGradB = 512,
};
} // namespace epilogue

/// cublasLtMatmulMatrixScale_t
namespace scale {
enum : int { Scalar = 0, Vec128 = 4, Block128x128 = 5 };
} // namespace scale

inline constexpr int kOpN = 0, kOpT = 1;
/// The first version with block scales: 12.9.
inline constexpr std::size_t kFirstWithBlockScales = 120900;

} // namespace binade::cuda::lt

#endif // BINADE_RUNTIME_CUDA_CUBLASLTAPI_H
