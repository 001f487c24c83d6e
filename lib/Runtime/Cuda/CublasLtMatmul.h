//===- CublasLtMatmul.h - Matmuls with cuBLASLt -----------------*- C++ -*-===//
// Matrices are row-major, as everywhere in Binade. cuBLASLt's are column-major,
// so it computes the transposed matmul: its A is Binade's right side, its B the
// left side.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_CUBLASLTMATMUL_H
#define BINADE_RUNTIME_CUDA_CUBLASLTMATMUL_H

#include "CublasLt.h"
#include "binade/Container/DType.h"
#include <vector>

namespace binade::cuda {

/// The f32 scales of an FP8 operand [rows, k], where rows is m or n.
enum class ScaleMode {
  Tensor,       ///< One scale for the tensor.
  Vec128,       ///< One for 128 elements of k in a row: [k / 128, rows].
  Block128x128, ///< One for 128 x 128 elements: [rows / 128, k / 128], each row
                ///< padded to a multiple of 4 scales.
};

/// The operation on the result before it is rounded. GELU uses tanh.
enum class Epilogue {
  None,
  Bias,       ///< + bias[n]
  Gelu,       ///< aux = result; gelu(aux)
  GeluBias,   ///< aux = result + bias[n]; gelu(aux)
  DGelu,      ///< result * gelu'(aux)
  DGeluBGrad, ///< The same, and bias[n] = its sum over m.
  BGradLeft,  ///< bias[m] = sum of the left side over k
  BGradRight, ///< bias[n] = sum of the right side over k
};

/// The matmul out[m, n] = lhs[m, k] * rhs[k, n] with sums in f32. If
/// transposed, lhs is stored as [k, m] and rhs as [n, k].
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  bool transposeLhs = false, transposeRhs = false;
  /// F32, F16, BF16, F8_E4M3 or F8_E5M2, in combinations that cuBLASLt
  /// supports.
  DType lhs = DType::F32, rhs = DType::F32, out = DType::F32;
  /// Elements from row to row; 0 for contiguous rows.
  std::int64_t lhsStride = 0, rhsStride = 0, outStride = 0;
  /// Number of matmuls, and the elements from one to the next.
  std::int64_t batch = 1, lhsBatchStride = 0, rhsBatchStride = 0,
               outBatchStride = 0;
  /// Rounds f32 operands to TF32.
  bool tf32 = false;
  /// Adds the result to `out`.
  bool accumulate = false;
  /// For FP8: sums with fewer bits, which is faster.
  bool fastAccumulation = false;
  ScaleMode lhsScale = ScaleMode::Tensor, rhsScale = ScaleMode::Tensor;
  Epilogue epilogue = Epilogue::None;
  DType bias = DType::F32, aux = DType::F32;
  /// Alignment of the matrices in bytes.
  std::uint32_t alignment = 16;

  bool hasBlocks() const {
    return lhsScale != ScaleMode::Tensor || rhsScale != ScaleMode::Tensor;
  }
};

/// The addresses for a run; 0 for operands that the problem does not have.
struct MatmulAddresses {
  Address lhs = 0, rhs = 0, out = 0;
  Address workspace = 0; ///< A multiple of 256.
  Address bias = 0, aux = 0;
  /// The f32 factors of FP8 operands, and of the result before it is rounded to
  /// FP8.
  Address lhsScale = 0, rhsScale = 0, outScale = 0;
  /// Receives the amax of the result before `outScale`, in f32.
  Address outAmax = 0;
};

/// A matmul with its algorithm.
class CublasLtMatmul {
public:
  /// Selects cuBLASLt's best algorithm within `workspaceLimit` bytes. A problem
  /// that cuBLASLt does not support is an error (exit code 6).
  static Result<CublasLtMatmul> create(std::shared_ptr<CublasLt> library,
                                       const MatmulProblem &problem,
                                       std::uint64_t workspaceLimit);
  /// Returns the best algorithms, at most `count` and at least one.
  static Result<std::vector<CublasLtMatmul>>
  list(std::shared_ptr<CublasLt> library, const MatmulProblem &problem,
       std::uint64_t workspaceLimit, int count);
  /// Uses a recorded algorithm; an error if it was recorded for another library
  /// or device.
  static Result<CublasLtMatmul> create(std::shared_ptr<CublasLt> library,
                                       const MatmulProblem &problem,
                                       const lt::Algorithm &algorithm,
                                       std::uint64_t workspaceLimit);

  std::uint64_t getWorkspaceBytes() const { return workspaceBytes; }
  const lt::Algorithm &getAlgorithm() const { return algorithm; }
  /// Returns text for reports: "cublaslt 12.9.1 id 66 tile 20 stages 36 ...".
  std::string describe() const;

  /// Enqueues the matmul on the device's stream.
  Result<void> run(const MatmulAddresses &addresses, const Label &label) const;

private:
  template <typename T> using Released = std::unique_ptr<T, int (*)(T *)>;
  CublasLtMatmul(std::shared_ptr<CublasLt> library,
                 const MatmulProblem &problem)
      : library(std::move(library)), problem(problem) {}
  static Result<CublasLtMatmul> prepare(std::shared_ptr<CublasLt> library,
                                        const MatmulProblem &problem);
  Result<void> createLayouts();
  Result<void> createLayout(Released<lt::MatrixLayout> &layout, DType type,
                            std::int64_t rows, std::int64_t columns,
                            std::int64_t stride, std::int64_t batchStride);
  Result<void> setOptions();
  Result<void> setAddresses(const MatmulAddresses &addresses) const;
  template <typename T> Result<void> set(int attribute, const T &value) const;

  std::shared_ptr<CublasLt> library;
  MatmulProblem problem;
  Released<lt::MatmulDesc> operation = {nullptr, nullptr};
  Released<lt::MatrixLayout> lhs = {nullptr, nullptr}, rhs = {nullptr, nullptr},
                             old = {nullptr, nullptr}, out = {nullptr, nullptr};
  lt::Algorithm algorithm = {};
  std::uint64_t workspaceBytes = 0;
};

/// Returns an algorithm as 128 hexadecimal digits, as in plans.
std::string formatAlgorithm(const lt::Algorithm &algorithm);
std::optional<lt::Algorithm> parseAlgorithm(std::string_view text);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_CUBLASLTMATMUL_H
