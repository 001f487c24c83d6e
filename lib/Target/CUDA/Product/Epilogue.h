//===- Epilogue.h - what becomes of sums ------------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_PRODUCT_EPILOGUE_H
#define BINADE_LIB_TARGET_CUDA_PRODUCT_EPILOGUE_H

#include "Gather.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::binade {

/// The arguments of a kernel; null for what it has not.
struct ContractionMemory {
  Value lhs, rhs, out, bias, lhsScale, rhsScale, workspace;
};

/// A kernel whose arguments are memory that no other is, its builder at the
/// begin of the body.
gpu::GPUFuncOp createKernel(ImplicitLocOpBuilder &b, StringRef name,
                            ArrayRef<Type> types, int64_t blocks,
                            int64_t threads);

/// One with these arguments, its builder at the begin of the body.
gpu::GPUFuncOp createContractionKernel(ImplicitLocOpBuilder &b, StringRef name,
                                       const Contraction &contraction,
                                       const Tiling &tiling, int64_t blocks,
                                       int64_t threads,
                                       ContractionMemory &memory);

/// Where the part of a batch begins in an operand.
Value findStart(Indices at, Value number, ArrayRef<int64_t> sizes,
                ArrayRef<int64_t> strides);

/// Stores sums as results: scaled, with the bias, added to what is there.
class Results {
public:
  Results(Indices at, const Contraction &contraction,
          const ContractionMemory &memory, Value batch, Extent rows,
          Extent columns);
  /// Sums of one row and neighbouring columns; those that do not exist are
  /// dropped. As many as `getWidth` gives are stored at once.
  void store(Value row, Value column, ValueRange sums) const;
  int64_t getWidth(int64_t most) const;

private:
  Value finish(Value sum, const Gather::Place &place, Value column) const;

  Indices at;
  const Contraction &contraction;
  Gather out;
  std::optional<Gather> bias;
  Value scale; ///< Null: 1.
};

/// The second kernel of a contraction whose sums are in parts: a thread adds
/// up those of one result, in the order of the terms.
void emitFinish(ImplicitLocOpBuilder &b, StringRef name,
                const Contraction &contraction, const Tiling &tiling);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_PRODUCT_EPILOGUE_H
