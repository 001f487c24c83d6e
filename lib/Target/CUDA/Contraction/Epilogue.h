//===- Epilogue.h - Epilogue of contractions --------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_CONTRACTION_EPILOGUE_H
#define BINADE_LIB_TARGET_CUDA_CONTRACTION_EPILOGUE_H

#include "Gather.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::binade {

/// The arguments of a kernel; null for those that it does not have.
struct ContractionMemory {
  Value lhs, rhs, out, bias, lhsScale, rhsScale, workspace;
};

/// Creates a kernel whose arguments do not alias, and sets the insertion point
/// to the start of its body.
gpu::GPUFuncOp createKernel(ImplicitLocOpBuilder &b, StringRef name,
                            ArrayRef<Type> types, int64_t blocks,
                            int64_t threads);

/// Creates a kernel with the arguments of `contraction` in the same way.
gpu::GPUFuncOp createContractionKernel(ImplicitLocOpBuilder &b, StringRef name,
                                       const Contraction &contraction,
                                       const Tiling &tiling, int64_t blocks,
                                       int64_t threads,
                                       ContractionMemory &memory);

/// Returns the offset in an operand at which the batch entry `number` starts.
Value findStart(Indices at, Value number, ArrayRef<int64_t> sizes,
                ArrayRef<int64_t> strides);

/// Stores sums as results, after applying scale, bias and accumulation.
class Results {
public:
  Results(Indices at, const Contraction &contraction,
          const ContractionMemory &memory, Value batch, Extent rows,
          Extent columns);
  /// Stores sums of one row and adjacent columns; those outside of the result
  /// are dropped. At most `getWidth` elements are stored at a time.
  void store(Value row, Value column, ValueRange sums) const;
  int64_t getWidth(int64_t most) const;

private:
  Value finish(Value sum, const Gather::Place &place, Value column) const;

  Indices at;
  const Contraction &contraction;
  Gather out;
  std::optional<Gather> bias;
  Value scale; ///< Null: no scale.
};

/// Emits the second kernel of a split-K contraction: each thread adds the
/// partial sums of one result, in the order of the terms.
void emitFinish(ImplicitLocOpBuilder &b, StringRef name,
                const Contraction &contraction, const Tiling &tiling);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CONTRACTION_EPILOGUE_H
