//===- TensorFile.cpp - Tensors in safetensors files ----------------------===//

#include "binade/Reference/TensorFile.h"
#include "binade/Container/Safetensors.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;
using ::binade::Error;
using ::binade::Result;

/// Returns the dtypes in which a file may store elements of `element`; the
/// first is used to write. Empty if there is none. Signless integers, such as
/// raw quantized elements, are also read from unsigned integers.
static SmallVector<DType, 2> getDTypes(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element)) {
    SmallVector<DType, 2> both;
    switch (integer.getWidth()) {
    case 1:
      return {DType::BOOL};
    case 2:
    case 4:
      return {integer.isUnsigned() ? DType::U8 : DType::I8};
    case 8:
      both = {DType::I8, DType::U8};
      break;
    case 16:
      both = {DType::I16, DType::U16};
      break;
    case 32:
      both = {DType::I32, DType::U32};
      break;
    case 64:
      both = {DType::I64, DType::U64};
      break;
    default:
      return {};
    }
    if (integer.isUnsigned())
      return {both.back()};
    return both;
  }
  if (element.isF64())
    return {DType::F64};
  if (element.isF32())
    return {DType::F32};
  if (element.isF16())
    return {DType::F16};
  if (element.isBF16())
    return {DType::BF16};
  if (isa<Float8E4M3FNType>(element))
    return {DType::F8_E4M3};
  if (isa<Float8E5M2Type>(element))
    return {DType::F8_E5M2};
  if (isa<Float8E8M0FNUType>(element))
    return {DType::F8_E8M0};
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 8)
    return {DType::U8};
  return {};
}

static Type getElementType(DType dtype, MLIRContext *context) {
  switch (dtype) {
  case DType::F64:
    return Float64Type::get(context);
  case DType::F32:
    return Float32Type::get(context);
  case DType::F16:
    return Float16Type::get(context);
  case DType::BF16:
    return BFloat16Type::get(context);
  case DType::F8_E4M3:
    return Float8E4M3FNType::get(context);
  case DType::F8_E5M2:
    return Float8E5M2Type::get(context);
  case DType::F8_E8M0:
    return Float8E8M0FNUType::get(context);
  case DType::BOOL:
    return IntegerType::get(context, 1);
  case DType::I8:
    return IntegerType::get(context, 8);
  case DType::U8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case DType::I16:
    return IntegerType::get(context, 16);
  case DType::U16:
    return IntegerType::get(context, 16, IntegerType::Unsigned);
  case DType::I32:
    return IntegerType::get(context, 32);
  case DType::U32:
    return IntegerType::get(context, 32, IntegerType::Unsigned);
  case DType::I64:
    return IntegerType::get(context, 64);
  case DType::U64:
    return IntegerType::get(context, 64, IntegerType::Unsigned);
  }
  llvm_unreachable("all dtypes are handled");
}

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

Result<NamedTensors> mlir::binade::readTensors(
    const std::string &path, MLIRContext *context,
    const std::map<std::string, RankedTensorType> &types) {
  auto file = ::binade::Safetensors::open(path);
  if (!file)
    return file.takeError();
  NamedTensors tensors;
  for (const ::binade::TensorInfo &info : file->getTensors()) {
    auto type =
        RankedTensorType::get(info.shape, getElementType(info.dtype, context));
    if (auto expected = types.find(info.name); expected != types.end()) {
      bool fits = expected->second.getShape() == type.getShape() &&
                  llvm::is_contained(
                      getDTypes(expected->second.getElementType()), info.dtype);
      if (!fits)
        return file->errorAt(info, "expected " + print(expected->second) +
                                       ", the file has " + print(type) + " (" +
                                       std::string(name(info.dtype)) + ")");
      type = expected->second;
    }
    std::vector<char> bytes(info.bytes);
    if (auto read = file->read(info, std::as_writable_bytes(std::span(bytes)));
        !read)
      return read.takeError();
    FailureOr<Tensor> tensor = Tensor::fromBytes(type, bytes);
    if (failed(tensor))
      return file->errorAt(info, "has a BOOL that is neither 0 nor 1");
    tensors[info.name] = std::make_shared<Tensor>(std::move(*tensor));
  }
  return tensors;
}

Result<void> mlir::binade::writeTensors(const std::string &path,
                                        const NamedTensors &tensors) {
  std::vector<std::vector<char>> storage;
  std::vector<::binade::TensorBytes> views;
  for (const auto &[name, tensor] : tensors) {
    RankedTensorType type = tensor->getType();
    SmallVector<DType, 2> dtypes = getDTypes(type.getElementType());
    if (dtypes.empty())
      return ::binade::Error{
          path, "no safetensors dtype can store elements of " + print(type)}
          .withPart("tensor " + ::binade::quote(name));
    storage.push_back(tensor->toBytes());
    views.push_back({name, dtypes.front(), type.getShape().vec(),
                     std::as_bytes(std::span(storage.back()))});
  }
  return ::binade::writeSafetensors(path, views);
}
