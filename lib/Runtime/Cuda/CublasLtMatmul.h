//===- CublasLtMatmul.h - Matrix products by cuBLASLt -----------*- C++ -*-===//
// Matrices are row-major, as everywhere in Binade; the library's are
// column-major, and get the transposed product: A is our right side, B our
// left.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_CUBLASLTMATMUL_H
#define BINADE_RUNTIME_CUDA_CUBLASLTMATMUL_H

#include "CublasLt.h"
#include "binade/Container/DType.h"
#include <vector>

namespace binade::cuda {

/// What FP8 codes are multiplied by, in f32. Rows are those of [m, k] and
/// [n, k].
enum class ScaleMode {
  Tensor,       ///< One number.
  Vec128,       ///< Of 128 elements of k, in one row: [k / 128, rows].
  Block128x128, ///< Of 128 elements of k, in 128 rows: [rows / 128, k / 128],
                ///< each row at a multiple of 4.
};

/// What is done with the product before it is rounded. GELU is its form with
/// tanh.
enum class Epilogue {
  None,
  Bias,       ///< + bias[n]
  Gelu,       ///< aux = product; gelu(aux)
  GeluBias,   ///< aux = product + bias[n]; gelu(aux)
  DGelu,      ///< product * gelu'(aux)
  DGeluBGrad, ///< The same, and bias[n] = its sum over m.
  BGradLeft,  ///< bias[m] = sum of the left side over k
  BGradRight, ///< bias[n] = sum of the right side over k
};

/// out[m, n] = lhs[m, k] * rhs[k, n]; lhs is stored as [k, m] and rhs as [n, k]
/// where they are transposed. Sums are f32.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  bool transposeLhs = false, transposeRhs = false;
  /// F32, F16, BF16, F8_E4M3 or F8_E5M2, as the library combines them.
  DType lhs = DType::F32, rhs = DType::F32, out = DType::F32;
  /// Elements from row to row; 0 where rows follow one another.
  std::int64_t lhsStride = 0, rhsStride = 0, outStride = 0;
  /// Products, with these numbers of elements between them.
  std::int64_t batch = 1, lhsBatchStride = 0, rhsBatchStride = 0,
               outBatchStride = 0;
  /// f32 operands are rounded to TF32.
  bool tf32 = false;
  /// out += the product.
  bool accumulate = false;
  /// Of FP8: fewer bits of the sums are kept, as fast as the hardware goes.
  bool fastAccumulation = false;
  ScaleMode lhsScale = ScaleMode::Tensor, rhsScale = ScaleMode::Tensor;
  Epilogue epilogue = Epilogue::None;
  DType bias = DType::F32, aux = DType::F32;
  /// Bytes that the addresses of matrices are multiples of.
  std::uint32_t alignment = 16;

  bool hasBlocks() const {
    return lhsScale != ScaleMode::Tensor || rhsScale != ScaleMode::Tensor;
  }
};

/// Of a run; 0 for what the problem does not have.
struct MatmulAddresses {
  Address lhs = 0, rhs = 0, out = 0;
  Address workspace = 0; ///< A multiple of 256.
  Address bias = 0, aux = 0;
  /// What FP8 codes are multiplied by, and what the result is before it becomes
  /// FP8. All are f32.
  Address lhsScale = 0, rhsScale = 0, outScale = 0;
  /// f32: gets the largest magnitude before `outScale`.
  Address outAmax = 0;
};

/// A product that is ready to run.
class CublasLtMatmul {
public:
  /// Asks the library for its best algorithm within `workspaceLimit` bytes. A
  /// combination that it does not compute is an error (exit code 6).
  static Result<CublasLtMatmul> create(std::shared_ptr<CublasLt> library,
                                       const MatmulProblem &problem,
                                       std::uint64_t workspaceLimit);
  /// The same for its best algorithms, at most `count` and at least one.
  static Result<std::vector<CublasLtMatmul>>
  list(std::shared_ptr<CublasLt> library, const MatmulProblem &problem,
       std::uint64_t workspaceLimit, int count);
  /// With an algorithm that was recorded; an error where the library or the
  /// device is another.
  static Result<CublasLtMatmul> create(std::shared_ptr<CublasLt> library,
                                       const MatmulProblem &problem,
                                       const lt::Algorithm &algorithm,
                                       std::uint64_t workspaceLimit);

  std::uint64_t getWorkspaceBytes() const { return workspaceBytes; }
  const lt::Algorithm &getAlgorithm() const { return algorithm; }
  /// For people: "cublaslt 12.9.1 id 66 tile 20 stages 36 ...".
  std::string describe() const;

  /// Puts the product on the device's stream.
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

/// 128 hexadecimal digits, for plans.
std::string formatAlgorithm(const lt::Algorithm &algorithm);
std::optional<lt::Algorithm> parseAlgorithm(std::string_view text);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_CUBLASLTMATMUL_H
