//===- ElementTypes.cpp - Element and tensor types of ONNX ----------------===//

#include "binade/ONNX/ElementTypes.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Limits.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::TensorProto;

Type mlir::binade::getElementType(MLIRContext *context, int64_t type) {
  Builder b(context);
  switch (type) {
  case TensorProto::FLOAT:
    return b.getF32Type();
  case TensorProto::DOUBLE:
    return b.getF64Type();
  case TensorProto::FLOAT16:
    return b.getF16Type();
  case TensorProto::BFLOAT16:
    return b.getBF16Type();
  case TensorProto::INT64:
    return b.getI64Type();
  case TensorProto::INT32:
    return b.getI32Type();
  case TensorProto::INT16:
    return b.getIntegerType(16);
  case TensorProto::INT8:
    return b.getIntegerType(8);
  case TensorProto::INT4:
    return b.getIntegerType(4);
  case TensorProto::INT2:
    return b.getIntegerType(2);
  case TensorProto::UINT64:
    return b.getIntegerType(64, /*isSigned=*/false);
  case TensorProto::UINT32:
    return b.getIntegerType(32, /*isSigned=*/false);
  case TensorProto::UINT16:
    return b.getIntegerType(16, /*isSigned=*/false);
  case TensorProto::UINT8:
    return b.getIntegerType(8, /*isSigned=*/false);
  case TensorProto::UINT4:
    return b.getIntegerType(4, /*isSigned=*/false);
  case TensorProto::UINT2:
    return b.getIntegerType(2, /*isSigned=*/false);
  case TensorProto::BOOL:
    return b.getI1Type();
  case TensorProto::FLOAT8E4M3FN:
    return b.getType<Float8E4M3FNType>();
  case TensorProto::FLOAT8E5M2:
    return b.getType<Float8E5M2Type>();
  case TensorProto::FLOAT8E4M3FNUZ:
    return b.getType<Float8E4M3FNUZType>();
  case TensorProto::FLOAT8E5M2FNUZ:
    return b.getType<Float8E5M2FNUZType>();
  case TensorProto::FLOAT8E8M0:
    return b.getType<Float8E8M0FNUType>();
  case TensorProto::FLOAT4E2M1:
    return b.getType<Float4E2M1FNType>();
  default:
    return {};
  }
}

std::string mlir::binade::describeElementType(int64_t type) {
  auto number = static_cast<int>(type);
  std::string name =
      type == number && TensorProto::DataType_IsValid(number)
          ? llvm::StringRef(TensorProto::DataType_Name(
                                static_cast<TensorProto::DataType>(number)))
                .lower()
          : "number " + std::to_string(type);
  return "element type " + name +
         " is not supported; supported are floats of 4 to 64 bits, integers of "
         "2 to 64 bits and bool";
}

FailureOr<RankedTensorType> mlir::binade::getTensorType(Location loc,
                                                        ArrayRef<int64_t> shape,
                                                        Type element) {
  if (shape.size() > kMaxRank)
    return emitUnsupported(loc) << "has " << shape.size() << " axes; at most "
                                << kMaxRank << " are supported";
  for (int64_t size : shape)
    if (size < 0)
      return mlir::emitError(loc)
             << "has a dimension of negative length " << size;
  if (!isCountable(shape))
    return emitUnsupported(loc)
           << "has more than 2^48 elements: [" << shape << "]";
  return RankedTensorType::get(shape, element);
}
