//===- CudnnGraphApi.h - Declarations of cuDNN's graphs ---------*- C++ -*-===//
// The backend interface, by which a graph of operations becomes one engine. As
// in CudnnApi.h, declarations are repeated so that Binade can be built without
// CUDA; the constants are those of cudnn_graph.h of version 9.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_CUDNNGRAPHAPI_H
#define BINADE_RUNTIME_CUDA_CUDNNGRAPHAPI_H

#include <cstdint>

namespace binade::cuda::cudnn {

struct Handle;

/// cudnnBackendDescriptor_t
using Descriptor = void *;

// Lists every function of type int(...) that is used: name here, symbol,
// parameters.
#define BINADE_CUDNN_GRAPH_FUNCTIONS(X)                                        \
  X(descriptorCreate, cudnnBackendCreateDescriptor, (int, Descriptor *))       \
  X(descriptorDestroy, cudnnBackendDestroyDescriptor, (Descriptor))            \
  X(descriptorFinalize, cudnnBackendFinalize, (Descriptor))                    \
  X(attributeSet, cudnnBackendSetAttribute,                                    \
    (Descriptor, int, int, std::int64_t, const void *))                        \
  X(attributeGet, cudnnBackendGetAttribute,                                    \
    (Descriptor, int, int, std::int64_t, std::int64_t *, void *))              \
  X(execute, cudnnBackendExecute, (Handle *, Descriptor, Descriptor))

/// cudnnBackendDescriptorType_t
namespace descriptor {
enum : int {
  Pointwise = 0,
  Engine = 2,
  EngineConfig = 3,
  EngineHeuristics = 4,
  ExecutionPlan = 5,
  OperationPointwise = 13,
  OperationGraph = 15,
  VariantPack = 16,
  Tensor = 17,
  Matmul = 18,
  OperationMatmul = 19,
  Reduction = 21,
  OperationReduction = 22,
  OperationReshape = 31,
};
} // namespace descriptor

/// cudnnBackendAttributeType_t
namespace attributeType {
enum : int {
  Handle = 0,
  DataType = 1,
  Boolean = 2,
  Int64 = 3,
  Float = 4,
  Double = 5,
  Pointer = 6,
  HeuristicMode = 8,
  NumericalNote = 11,
  PointwiseMode = 14,
  Descriptor = 15,
  ReductionOperator = 18,
};
} // namespace attributeType

/// cudnnBackendAttributeName_t
namespace attributeName {
enum : int {
  PointwiseMode = 0,
  PointwiseMathType = 1,
  PointwiseAxis = 9,
  HeuristicsMode = 200,
  HeuristicsGraph = 201,
  HeuristicsResults = 202,
  EngineConfigEngine = 300,
  PlanEngineConfig = 401,
  PlanWorkspaceBytes = 402,
  OperationPointwise = 750,
  OperationPointwiseX = 751,
  OperationPointwiseB = 752,
  OperationPointwiseY = 753,
  OperationPointwiseAlpha1 = 754,
  OperationPointwiseAlpha2 = 755,
  OperationPointwiseT = 758,
  GraphHandle = 800,
  GraphOperations = 801,
  TensorAlignment = 900,
  TensorType = 901,
  TensorSizes = 902,
  TensorStrides = 903,
  TensorId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  PackIds = 1000,
  PackPointers = 1001,
  PackWorkspace = 1003,
  EngineIndex = 1301,
  EngineNumericalNotes = 1303,
  MatmulMathType = 1500,
  MatmulPadding = 1503,
  OperationMatmulA = 1520,
  OperationMatmulB = 1521,
  OperationMatmulC = 1522,
  OperationMatmul = 1523,
  ReductionOperator = 1600,
  ReductionMathType = 1601,
  ReductionIsDeterministic = 1602,
  OperationReductionX = 1610,
  OperationReductionY = 1611,
  OperationReduction = 1612,
  OperationReshapeX = 2200,
  OperationReshapeY = 2201,
};
} // namespace attributeName

/// cudnnDataType_t, as far as only graphs use it.
namespace type {
enum : int { I32 = 4, Boolean = 11 };
} // namespace type

/// cudnnPointwiseMode_t
namespace pointwise {
enum : int {
  Add = 0,
  Multiply = 1,
  Divide = 6,
  Subtract = 9,
  Exp = 13,
  Log = 15,
  GreaterOrEqual = 303,
  Index = 501,
  Select = 601,
};
} // namespace pointwise

/// cudnnReduceTensorOp_t
namespace reduction {
enum : int { Add = 0, Max = 3 };
} // namespace reduction

/// cudnnBackendNumericalNote_t
namespace note {
enum : int { TensorCore = 0, Nondeterministic = 4, StrictNan = 9 };
} // namespace note

inline constexpr int kHeuristicModeA = 3; ///< cudnnBackendHeurMode_t

} // namespace binade::cuda::cudnn

#endif // BINADE_RUNTIME_CUDA_CUDNNGRAPHAPI_H
