//===- Tensors.cpp - Stored tensors as attributes -------------------------===//

#include "binade/ONNX/Tensors.h"
#include "binade/Container/NonFinite.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Diagnostics.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::TensorProto;

/// Whether several elements share a byte: those of fewer than 8 bits, except
/// bool.
static bool isPacked(Type element) {
  return element.getIntOrFloatBitWidth() < 8 && !element.isInteger(1);
}

uint64_t mlir::binade::getBytes(RankedTensorType type) {
  uint64_t count = type.getNumElements();
  unsigned width = type.getElementTypeBitWidth();
  return isPacked(type.getElementType()) ? llvm::divideCeil(count * width, 8)
                                         : count * llvm::divideCeil(width, 8);
}

/// Fails unless the integers in fields that are wider than the element type are
/// in its range. They are elements, the bits of a float, or the bits of several
/// elements.
static LogicalResult checkWords(Location loc, const TensorProto &tensor) {
  if (tensor.data_type() == TensorProto::UINT32)
    for (uint64_t word : tensor.uint64_data())
      if (word > UINT32_MAX)
        return mlir::emitError(loc)
               << "holds " << word
               << " in uint64_data; values of its type are 0 to " << UINT32_MAX;
  int64_t low = 0, high = UINT8_MAX;
  switch (tensor.data_type()) {
  case TensorProto::INT16:
    low = INT16_MIN;
    high = INT16_MAX;
    break;
  case TensorProto::INT8:
    low = INT8_MIN;
    high = INT8_MAX;
    break;
  case TensorProto::BOOL:
    high = 1;
    break;
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
  case TensorProto::UINT16:
    high = UINT16_MAX;
    break;
  case TensorProto::INT32:
    return success();
  default: // Types of at most 8 bits.
    break;
  }
  for (int32_t word : tensor.int32_data())
    if (word < low || word > high)
      return mlir::emitError(loc)
             << "holds " << word << " in int32_data; values of its type are "
             << low << " to " << high;
  return success();
}

/// Returns in how many of its data fields `tensor` has data.
static int countData(const TensorProto &tensor) {
  return (tensor.has_raw_data() && !tensor.raw_data().empty()) +
         !tensor.float_data().empty() + !tensor.double_data().empty() +
         !tensor.int32_data().empty() + !tensor.int64_data().empty() +
         !tensor.uint64_data().empty() + !tensor.string_data().empty() +
         (tensor.data_location() == TensorProto::EXTERNAL);
}

FailureOr<RankedTensorType> TensorReader::getType(Location loc,
                                                  const TensorProto &tensor) {
  Type element = getElementType(model.getContext(), tensor.data_type());
  if (!element)
    return emitUnsupported(loc) << describeElementType(tensor.data_type());
  if (countData(tensor) > 1)
    return mlir::emitError(loc) << "has data in more than one of raw_data, the "
                                   "typed data fields and "
                                   "an external file";
  if (failed(checkWords(loc, tensor)))
    return failure();
  return getTensorType(
      loc, ArrayRef(tensor.dims().data(), tensor.dims().size()), element);
}

//===----------------------------------------------------------------------===//
// Data in the model's file
//===----------------------------------------------------------------------===//

/// Unpacks elements that share bytes; the first is in the low bits of its byte.
static DenseElementsAttr unpack(RankedTensorType type, ArrayRef<char> bytes) {
  unsigned width = type.getElementTypeBitWidth(), perByte = 8 / width;
  SmallVector<APInt> codes;
  for (int64_t i = 0, count = type.getNumElements(); i < count; ++i) {
    auto byte = static_cast<unsigned char>(bytes[i / perByte]);
    codes.emplace_back(width, byte >> (i % perByte * width),
                       /*isSigned=*/false, /*implicitTrunc=*/true);
  }
  auto format = dyn_cast<FloatType>(type.getElementType());
  if (!format)
    return DenseElementsAttr::get(type, codes);
  auto numbers = llvm::map_to_vector(codes, [&](const APInt &code) {
    return APFloat(format.getFloatSemantics(), code);
  });
  return DenseElementsAttr::get(type, numbers);
}

static DenseElementsAttr fromBytes(RankedTensorType type,
                                   ArrayRef<char> bytes) {
  if (isPacked(type.getElementType()))
    return unpack(type, bytes);
  if (!type.getElementType().isInteger(1))
    return DenseElementsAttr::getFromRawBuffer(type, bytes);
  SmallVector<bool> flags(
      llvm::map_range(bytes, [](char c) { return c != 0; }));
  return DenseElementsAttr::get(type, flags);
}

/// Returns the bytes of elements of narrow types, each of whose bits are stored
/// as a 32-bit integer.
template <typename Narrow>
static std::vector<char>
narrow(const google::protobuf::RepeatedField<int32_t> &words) {
  std::vector<char> bytes;
  for (int32_t word : words) {
    Narrow value = static_cast<Narrow>(word);
    auto *begin = reinterpret_cast<const char *>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof(Narrow));
  }
  return bytes;
}

static std::vector<char>
narrowWords(const google::protobuf::RepeatedField<uint64_t> &words) {
  std::vector<uint32_t> narrow(words.begin(), words.end());
  auto *begin = reinterpret_cast<const char *>(narrow.data());
  return {begin, begin + narrow.size() * sizeof(uint32_t)};
}

template <typename Field> static std::vector<char> copy(const Field &field) {
  auto *begin = reinterpret_cast<const char *>(field.data());
  return {begin, begin + field.size() * sizeof(*field.data())};
}

static std::vector<char> getTypedData(const TensorProto &tensor) {
  switch (tensor.data_type()) {
  case TensorProto::FLOAT:
    return copy(tensor.float_data());
  case TensorProto::DOUBLE:
    return copy(tensor.double_data());
  case TensorProto::INT64:
    return copy(tensor.int64_data());
  case TensorProto::INT32:
    return copy(tensor.int32_data());
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
  case TensorProto::INT16:
  case TensorProto::UINT16:
    return narrow<uint16_t>(tensor.int32_data());
  case TensorProto::UINT64:
    return copy(tensor.uint64_data());
  case TensorProto::UINT32:
    return narrowWords(tensor.uint64_data());
  default: // Types of at most 8 bits.
    return narrow<uint8_t>(tensor.int32_data());
  }
}

/// Returns the number of bytes of the raw data or of `getTypedData`.
static uint64_t countBytes(const TensorProto &tensor, RankedTensorType type) {
  if (tensor.has_raw_data())
    return tensor.raw_data().size();
  uint64_t words = 0;
  switch (tensor.data_type()) {
  case TensorProto::FLOAT:
    words = tensor.float_data_size();
    break;
  case TensorProto::DOUBLE:
    words = tensor.double_data_size();
    break;
  case TensorProto::INT64:
    words = tensor.int64_data_size();
    break;
  case TensorProto::UINT32:
  case TensorProto::UINT64:
    words = tensor.uint64_data_size();
    break;
  default:
    words = tensor.int32_data_size();
  }
  return words * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

static LogicalResult checkSize(Location loc, RankedTensorType type,
                               uint64_t bytes) {
  if (bytes == getBytes(type))
    return success();
  return mlir::emitError(loc)
         << "holds " << bytes << " bytes of data, its type " << type
         << " needs " << getBytes(type);
}

LogicalResult TensorReader::check(Location loc, const TensorProto &tensor) {
  FailureOr<RankedTensorType> type = getType(loc, tensor);
  if (failed(type))
    return failure();
  if (tensor.data_location() == TensorProto::EXTERNAL)
    return findExternal(loc, tensor, *type);
  return checkSize(loc, *type, countBytes(tensor, *type));
}

FailureOr<std::vector<char>>
TensorReader::readBytes(Location loc, const TensorProto &tensor) {
  FailureOr<RankedTensorType> type = getType(loc, tensor);
  if (failed(type))
    return failure();
  std::vector<char> bytes;
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    FailureOr<ExternalPlace> place = findExternal(loc, tensor, *type);
    if (failed(place))
      return failure();
    bytes.resize(place->size);
    auto read =
        ::binade::readRange(external.getFile(place->location), place->offset,
                            std::as_writable_bytes(std::span(bytes)));
    if (!read)
      return emitError(loc, read.error());
  } else if (tensor.has_raw_data()) {
    bytes.assign(tensor.raw_data().begin(), tensor.raw_data().end());
  } else {
    bytes = getTypedData(tensor);
  }
  if (failed(checkSize(loc, *type, bytes.size())))
    return failure();
  return bytes;
}

FailureOr<TypedAttr> TensorReader::readElements(Location loc,
                                                const TensorProto &tensor) {
  FailureOr<RankedTensorType> type = getType(loc, tensor);
  if (failed(type))
    return failure();
  FailureOr<std::vector<char>> bytes = readBytes(loc, tensor);
  if (failed(bytes))
    return failure();
  return cast<TypedAttr>(fromBytes(*type, *bytes));
}

/// Returns nothing for 8-bit and narrower floats, whose elements are quantized
/// values, and for integers.
static std::optional<::binade::DType> getFloatDType(const TensorProto &tensor) {
  switch (tensor.data_type()) {
  case TensorProto::DOUBLE:
    return ::binade::DType::F64;
  case TensorProto::FLOAT:
    return ::binade::DType::F32;
  case TensorProto::FLOAT16:
    return ::binade::DType::F16;
  case TensorProto::BFLOAT16:
    return ::binade::DType::BF16;
  default:
    return std::nullopt;
  }
}

LogicalResult TensorReader::checkFinite(Location loc, const TensorProto &tensor,
                                        bool canBeMask) {
  auto dtype = getFloatDType(tensor);
  if (!dtype)
    return success();
  FailureOr<std::vector<char>> bytes = readBytes(loc, tensor);
  if (failed(bytes))
    return failure();
  ::binade::NonFinite found = ::binade::findNonFinite(
      *dtype, std::as_bytes(std::span(*bytes)), !canBeMask);
  if (found.count == 0)
    return success();
  return mlir::emitError(loc) << "holds " << found.describe();
}

//===----------------------------------------------------------------------===//
// Data in other files
//===----------------------------------------------------------------------===//

FailureOr<ExternalPlace> TensorReader::findExternal(Location loc,
                                                    const TensorProto &tensor,
                                                    RankedTensorType type) {
  ExternalData::Entries entries;
  for (const ::onnx::StringStringEntryProto &entry : tensor.external_data())
    entries.push_back({entry.key(), entry.value()});
  std::string text;
  llvm::raw_string_ostream(text) << "'" << type << "'";
  auto place =
      external.find(entries, getBytes(type), text, [&](const Twine &what) {
        if (warned.insert(tensor.name()).second)
          mlir::emitWarning(loc) << what;
      });
  if (!place)
    return emitError(loc, place.error());
  return *place;
}

FailureOr<TypedAttr> TensorReader::refer(Location loc,
                                         const TensorProto &tensor,
                                         std::optional<ByteRange> range) {
  FailureOr<RankedTensorType> type = getType(loc, tensor);
  if (failed(type))
    return failure();
  ExternalPlace place;
  if (isPacked(type->getElementType()))
    return readElements(loc, tensor);
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    FailureOr<ExternalPlace> found = findExternal(loc, tensor, *type);
    if (failed(found))
      return failure();
    place = std::move(*found);
  } else if (range && range->size == getBytes(*type)) {
    place = {model.getFileName().str(), range->offset, range->size};
  } else {
    return readElements(loc, tensor);
  }
  return cast<TypedAttr>(
      ExternalAttr::get(model.getContext(), *type,
                        StringAttr::get(model.getContext(), place.location),
                        place.offset, place.size, StringAttr()));
}

FailureOr<TypedAttr>
TensorReader::readConstant(Location loc, const TensorProto &tensor,
                           std::optional<ByteRange> range) {
  FailureOr<RankedTensorType> type = getType(loc, tensor);
  if (failed(type))
    return failure();
  return getBytes(*type) <= kInlineBytes ? readElements(loc, tensor)
                                         : refer(loc, tensor, range);
}
