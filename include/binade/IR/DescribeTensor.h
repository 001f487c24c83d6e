//===- DescribeTensor.h - Types in messages ---------------------*- C++ -*-===//

#ifndef BINADE_IR_DESCRIBETENSOR_H
#define BINADE_IR_DESCRIBETENSOR_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::binade {

/// Returns "f32 [8, 10]" for a tensor: the users of exported models do not know
/// MLIR's types.
inline std::string describeTensor(Type type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto tensor = dyn_cast<RankedTensorType>(type);
  os << (tensor ? tensor.getElementType() : type);
  if (tensor && tensor.getRank() > 0) {
    os << " [";
    llvm::interleaveComma(tensor.getShape(), os);
    os << "]";
  }
  return text;
}

} // namespace mlir::binade

#endif // BINADE_IR_DESCRIBETENSOR_H
