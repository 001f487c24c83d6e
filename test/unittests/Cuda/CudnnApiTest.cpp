//===- CudnnApiTest.cpp - Declarations agree with cudnn.h -----------------===//
// The compiler checks all of it, by static assertions.
//===----------------------------------------------------------------------===//

#include "../../../lib/Runtime/Cuda/CudnnApi.h"
#include "../../../lib/Runtime/Cuda/CudnnGraphApi.h"
#include "cudnn.h"
#include "gtest/gtest.h"
#include <type_traits>

// An older header lacks some of the functions.
#if CUDNN_VERSION >= 90000

using namespace binade::cuda::cudnn;

namespace {
// The runtime declares enumerations as int, and has types of its own for
// handles.
template <typename Ours, typename Theirs>
constexpr bool isSame = std::is_same_v<Ours, Theirs> ||
                        (std::is_enum_v<Theirs> && std::is_same_v<Ours, int>) ||
                        (std::is_class_v<std::remove_const_t<Ours>> &&
                         std::is_class_v<std::remove_const_t<Theirs>>);
template <typename Ours, typename Theirs>
constexpr bool isSame<Ours *, Theirs *> = isSame<Ours, Theirs>;

template <typename Ours, typename Theirs>
constexpr bool hasSameParameters = false;
template <typename... Ours, typename... Theirs>
constexpr bool hasSameParameters<int(Ours...), cudnnStatus_t(Theirs...)> =
    sizeof...(Ours) == sizeof...(Theirs) && (isSame<Ours, Theirs> && ...);
} // namespace

#define CHECK(NAME, SYMBOL, PARAMETERS)                                        \
  static_assert(hasSameParameters<int PARAMETERS, decltype(::SYMBOL)>, #SYMBOL);
BINADE_CUDNN_FUNCTIONS(CHECK)
BINADE_CUDNN_GRAPH_FUNCTIONS(CHECK)

static_assert(sizeof(AlgorithmResult) == sizeof(cudnnConvolutionFwdAlgoPerf_t));

#define CHECK_NUMBER(OURS, THEIRS)                                             \
  static_assert(int(OURS) == int(THEIRS), #THEIRS);
CHECK_NUMBER(status::Success, CUDNN_STATUS_SUCCESS)
CHECK_NUMBER(status::BadParam, CUDNN_STATUS_BAD_PARAM)
CHECK_NUMBER(status::NotSupported, CUDNN_STATUS_NOT_SUPPORTED)
CHECK_NUMBER(status::ExecutionFailed, CUDNN_STATUS_EXECUTION_FAILED)
CHECK_NUMBER(type::F32, CUDNN_DATA_FLOAT)
CHECK_NUMBER(type::F16, CUDNN_DATA_HALF)
CHECK_NUMBER(type::BF16, CUDNN_DATA_BFLOAT16)
CHECK_NUMBER(type::I32, CUDNN_DATA_INT32)
CHECK_NUMBER(type::Boolean, CUDNN_DATA_BOOLEAN)
CHECK_NUMBER(format::ChannelsFirst, CUDNN_TENSOR_NCHW)
CHECK_NUMBER(format::ChannelsLast, CUDNN_TENSOR_NHWC)
CHECK_NUMBER(math::TensorOp, CUDNN_TENSOR_OP_MATH)
CHECK_NUMBER(math::Fma, CUDNN_FMA_MATH)
CHECK_NUMBER(kCrossCorrelation, CUDNN_CROSS_CORRELATION)
CHECK_NUMBER(kDeterministic, CUDNN_DETERMINISTIC)
CHECK_NUMBER(kLastForward, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT)
CHECK_NUMBER(kLastGradient, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1)
CHECK_NUMBER(kLastGradient, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1)

#define CHECK_DESCRIPTOR(OURS, THEIRS)                                         \
  CHECK_NUMBER(descriptor::OURS, CUDNN_BACKEND_##THEIRS##_DESCRIPTOR)
CHECK_DESCRIPTOR(Pointwise, POINTWISE)
CHECK_DESCRIPTOR(Engine, ENGINE)
CHECK_DESCRIPTOR(EngineConfig, ENGINECFG)
CHECK_DESCRIPTOR(EngineHeuristics, ENGINEHEUR)
CHECK_DESCRIPTOR(ExecutionPlan, EXECUTION_PLAN)
CHECK_DESCRIPTOR(OperationPointwise, OPERATION_POINTWISE)
CHECK_DESCRIPTOR(OperationGraph, OPERATIONGRAPH)
CHECK_DESCRIPTOR(VariantPack, VARIANT_PACK)
CHECK_DESCRIPTOR(Tensor, TENSOR)
CHECK_DESCRIPTOR(Matmul, MATMUL)
CHECK_DESCRIPTOR(OperationMatmul, OPERATION_MATMUL)
CHECK_DESCRIPTOR(Reduction, REDUCTION)
CHECK_DESCRIPTOR(OperationReduction, OPERATION_REDUCTION)
CHECK_DESCRIPTOR(OperationReshape, OPERATION_RESHAPE)

#define CHECK_TYPE(OURS, THEIRS)                                               \
  CHECK_NUMBER(attributeType::OURS, CUDNN_TYPE_##THEIRS)
CHECK_TYPE(Handle, HANDLE)
CHECK_TYPE(DataType, DATA_TYPE)
CHECK_TYPE(Boolean, BOOLEAN)
CHECK_TYPE(Int64, INT64)
CHECK_TYPE(Float, FLOAT)
CHECK_TYPE(Double, DOUBLE)
CHECK_TYPE(Pointer, VOID_PTR)
CHECK_TYPE(HeuristicMode, HEUR_MODE)
CHECK_TYPE(NumericalNote, NUMERICAL_NOTE)
CHECK_TYPE(PointwiseMode, POINTWISE_MODE)
CHECK_TYPE(Descriptor, BACKEND_DESCRIPTOR)
CHECK_TYPE(ReductionOperator, REDUCTION_OPERATOR_TYPE)

#define CHECK_NAME(OURS, THEIRS)                                               \
  CHECK_NUMBER(attributeName::OURS, CUDNN_ATTR_##THEIRS)
CHECK_NAME(PointwiseMode, POINTWISE_MODE)
CHECK_NAME(PointwiseMathType, POINTWISE_MATH_PREC)
CHECK_NAME(PointwiseAxis, POINTWISE_AXIS)
CHECK_NAME(HeuristicsMode, ENGINEHEUR_MODE)
CHECK_NAME(HeuristicsGraph, ENGINEHEUR_OPERATION_GRAPH)
CHECK_NAME(HeuristicsResults, ENGINEHEUR_RESULTS)
CHECK_NAME(EngineConfigEngine, ENGINECFG_ENGINE)
CHECK_NAME(PlanEngineConfig, EXECUTION_PLAN_ENGINE_CONFIG)
CHECK_NAME(PlanWorkspaceBytes, EXECUTION_PLAN_WORKSPACE_SIZE)
CHECK_NAME(OperationPointwise, OPERATION_POINTWISE_PW_DESCRIPTOR)
CHECK_NAME(OperationPointwiseX, OPERATION_POINTWISE_XDESC)
CHECK_NAME(OperationPointwiseB, OPERATION_POINTWISE_BDESC)
CHECK_NAME(OperationPointwiseY, OPERATION_POINTWISE_YDESC)
CHECK_NAME(OperationPointwiseAlpha1, OPERATION_POINTWISE_ALPHA1)
CHECK_NAME(OperationPointwiseAlpha2, OPERATION_POINTWISE_ALPHA2)
CHECK_NAME(OperationPointwiseT, OPERATION_POINTWISE_TDESC)
CHECK_NAME(GraphHandle, OPERATIONGRAPH_HANDLE)
CHECK_NAME(GraphOperations, OPERATIONGRAPH_OPS)
CHECK_NAME(TensorAlignment, TENSOR_BYTE_ALIGNMENT)
CHECK_NAME(TensorType, TENSOR_DATA_TYPE)
CHECK_NAME(TensorSizes, TENSOR_DIMENSIONS)
CHECK_NAME(TensorStrides, TENSOR_STRIDES)
CHECK_NAME(TensorId, TENSOR_UNIQUE_ID)
CHECK_NAME(TensorIsVirtual, TENSOR_IS_VIRTUAL)
CHECK_NAME(TensorIsByValue, TENSOR_IS_BY_VALUE)
CHECK_NAME(PackIds, VARIANT_PACK_UNIQUE_IDS)
CHECK_NAME(PackPointers, VARIANT_PACK_DATA_POINTERS)
CHECK_NAME(PackWorkspace, VARIANT_PACK_WORKSPACE)
CHECK_NAME(EngineIndex, ENGINE_GLOBAL_INDEX)
CHECK_NAME(EngineNumericalNotes, ENGINE_NUMERICAL_NOTE)
CHECK_NAME(MatmulMathType, MATMUL_COMP_TYPE)
CHECK_NAME(MatmulPadding, MATMUL_PADDING_VALUE)
CHECK_NAME(OperationMatmulA, OPERATION_MATMUL_ADESC)
CHECK_NAME(OperationMatmulB, OPERATION_MATMUL_BDESC)
CHECK_NAME(OperationMatmulC, OPERATION_MATMUL_CDESC)
CHECK_NAME(OperationMatmul, OPERATION_MATMUL_DESC)
CHECK_NAME(ReductionOperator, REDUCTION_OPERATOR)
CHECK_NAME(ReductionMathType, REDUCTION_COMP_TYPE)
CHECK_NAME(ReductionIsDeterministic, REDUCTION_IS_DETERMINISTIC)
CHECK_NAME(OperationReductionX, OPERATION_REDUCTION_XDESC)
CHECK_NAME(OperationReductionY, OPERATION_REDUCTION_YDESC)
CHECK_NAME(OperationReduction, OPERATION_REDUCTION_DESC)
CHECK_NAME(OperationReshapeX, OPERATION_RESHAPE_XDESC)
CHECK_NAME(OperationReshapeY, OPERATION_RESHAPE_YDESC)

#define CHECK_MODE(OURS, THEIRS)                                               \
  CHECK_NUMBER(pointwise::OURS, CUDNN_POINTWISE_##THEIRS)
CHECK_MODE(Add, ADD)
CHECK_MODE(Multiply, MUL)
CHECK_MODE(Divide, DIV)
CHECK_MODE(Subtract, SUB)
CHECK_MODE(Exp, EXP)
CHECK_MODE(Log, LOG)
CHECK_MODE(GreaterOrEqual, CMP_GE)
CHECK_MODE(Index, GEN_INDEX)
CHECK_MODE(Select, BINARY_SELECT)
CHECK_NUMBER(reduction::Add, CUDNN_REDUCE_TENSOR_ADD)
CHECK_NUMBER(reduction::Max, CUDNN_REDUCE_TENSOR_MAX)
CHECK_NUMBER(note::TensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
CHECK_NUMBER(note::Nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
CHECK_NUMBER(note::StrictNan, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
CHECK_NUMBER(kHeuristicModeA, CUDNN_HEUR_MODE_A)

TEST(CudnnApiTest, DeclarationsAgreeWithTheHeader) {}

#else

TEST(CudnnApiTest, DeclarationsAgreeWithTheHeader) {
  GTEST_SKIP() << "cudnn.h is older than cuDNN 9.0";
}

#endif
