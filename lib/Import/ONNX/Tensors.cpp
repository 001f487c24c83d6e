//===- Tensors.cpp - Stored tensors as attributes -------------------------===//

#include "Tensors.h"
#include "binade/Container/Magic.h"
#include "binade/Container/NonFinite.h"
#include "binade/IR/Binade.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using ::onnx::TensorProto;

/// Elements of fewer bits than a byte, other than bool, share one.
static bool isPacked(Type element) {
  return element.getIntOrFloatBitWidth() < 8 && !element.isInteger(1);
}

uint64_t mlir::binade::importer::getBytes(RankedTensorType type) {
  uint64_t count = type.getNumElements();
  unsigned width = type.getElementTypeBitWidth();
  return isPacked(type.getElementType()) ? llvm::divideCeil(count * width, 8)
                                         : count * llvm::divideCeil(width, 8);
}

/// Fails unless the integers that are stored in more bits are those of the
/// tensor's type: numbers, or the bits of floats and of several elements.
static LogicalResult checkWords(Location loc, const TensorProto &tensor) {
  if (tensor.data_type() == TensorProto::UINT32)
    for (uint64_t word : tensor.uint64_data())
      if (word > UINT32_MAX)
        return mlir::emitError(loc)
               << "holds " << word
               << " in uint64_data, where its type has 0 to " << UINT32_MAX;
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
  default: // Bytes.
    break;
  }
  for (int32_t word : tensor.int32_data())
    if (word < low || word > high)
      return mlir::emitError(loc)
             << "holds " << word << " in int32_data, where its type has " << low
             << " to " << high;
  return success();
}

/// In how many ways `tensor` has data.
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
    return mlir::emitError(loc) << describeElementType(tensor.data_type());
  if (countData(tensor) > 1)
    return mlir::emitError(loc)
           << "has data in more than one of raw_data, the fields of types and "
              "another file";
  if (failed(checkWords(loc, tensor)))
    return failure();
  return getTensorType(
      loc, ArrayRef(tensor.dims().data(), tensor.dims().size()), element);
}

//===----------------------------------------------------------------------===//
// Data in the model's file
//===----------------------------------------------------------------------===//

/// The first element is in the low bits of its byte.
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

/// Narrow types are stored as 32-bit integers that hold their bits.
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
  default: // Types of a byte, and those that share one.
    return narrow<uint8_t>(tensor.int32_data());
  }
}

FailureOr<std::vector<char>>
TensorReader::readBytes(Location loc, const TensorProto &tensor) {
  FailureOr<RankedTensorType> type = getType(loc, tensor);
  if (failed(type))
    return failure();
  std::vector<char> bytes;
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    FailureOr<Place> place = findExternal(loc, tensor, *type);
    if (failed(place))
      return failure();
    bytes.resize(place->range.size);
    auto read = ::binade::readRange(files.find(place->location)->second,
                                    place->range.offset,
                                    std::as_writable_bytes(std::span(bytes)));
    if (!read)
      return emitError(loc, read.error());
  } else if (tensor.has_raw_data()) {
    bytes.assign(tensor.raw_data().begin(), tensor.raw_data().end());
  } else {
    bytes = getTypedData(tensor);
  }
  if (bytes.size() != getBytes(*type))
    return mlir::emitError(loc)
           << "holds " << bytes.size() << " bytes of data, its type " << *type
           << " needs " << getBytes(*type);
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

/// Numbers of other types are codes.
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

FailureOr<::binade::ExternalFile *> TensorReader::open(Location loc,
                                                       StringRef location) {
  if (auto known = files.find(location); known != files.end())
    return &known->second;
  ::binade::OpenOptions options;
  options.allowHardLinks = allowHardLinks;
  auto file = ::binade::openBeneath(
      model.getDirectory(), std::string_view(location.data(), location.size()),
      options);
  if (!file)
    return emitError(loc, file.error());
  return &files.try_emplace(location, std::move(*file)).first->second;
}

/// Fails unless the whole of `file` has the SHA-1 `expected`, hexadecimal.
static LogicalResult checkHash(Location loc, const ::binade::ExternalFile &file,
                               StringRef expected) {
  llvm::SHA1 hash;
  std::vector<std::byte> buffer(1 << 20);
  for (uint64_t begin = 0; begin < file.getSize(); begin += buffer.size()) {
    auto part = std::span(buffer).first(
        std::min<uint64_t>(buffer.size(), file.getSize() - begin));
    if (auto read = ::binade::readRange(file, begin, part); !read)
      return emitError(loc, read.error());
    hash.update(
        ArrayRef(reinterpret_cast<const uint8_t *>(part.data()), part.size()));
  }
  std::string found = llvm::toHex(hash.final(), /*LowerCase=*/true);
  if (expected.equals_insensitive(found))
    return success();
  return mlir::emitError(loc) << file.getPath() << " has the SHA-1 " << found
                              << ", its checksum is " << quote(expected);
}

FailureOr<TensorReader::Place>
TensorReader::findExternal(Location loc, const TensorProto &tensor,
                           RankedTensorType type) {
  Place place;
  StringRef checksum;
  place.range.size = getBytes(type);
  for (const ::onnx::StringStringEntryProto &entry : tensor.external_data()) {
    if (entry.key() == "location") {
      place.location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      std::optional<uint64_t> number = ::binade::parseDecimal(entry.value());
      if (!number)
        return mlir::emitError(loc)
               << "expected external " << entry.key()
               << " to be a decimal number, got " << quote(entry.value());
      if (entry.key() == "offset")
        place.range.offset = *number;
      else if (*number != place.range.size)
        return mlir::emitError(loc)
               << "external length is " << *number << " bytes, its type "
               << type << " needs " << place.range.size;
    } else if (entry.key() == "checksum") {
      checksum = entry.value();
    } else if (entry.key() != "basepath") {
      mlir::emitWarning(loc) << "unknown key " << quote(entry.key())
                             << " of external data is ignored";
    }
  }
  if (place.location.empty())
    return mlir::emitError(loc) << "external data name no file";
  FailureOr<::binade::ExternalFile *> file = open(loc, place.location);
  if (failed(file))
    return failure();
  if (!checksum.empty() && hashed.insert(place.location).second &&
      failed(checkHash(loc, **file, checksum)))
    return failure();
  auto checked =
      ::binade::checkRange(**file, place.range.offset, place.range.size);
  if (checked)
    return place;
  ::binade::Error error = checked.takeError();
  std::array<std::byte, ::binade::kMagicBytes> head = {};
  size_t size = std::min<uint64_t>(head.size(), (*file)->getSize());
  if (::binade::readRange(**file, 0, std::span(head).first(size))) {
    std::string_view kind =
        ::binade::recognizeMagic(std::span(head).first(size));
    std::string_view advice =
        ::binade::magicAdvice(std::span(head).first(size));
    if (!advice.empty())
      error.notes.push_back("the file is " + std::string(kind) + ": " +
                            std::string(advice));
  }
  return emitError(loc, error);
}

FailureOr<TypedAttr> TensorReader::refer(Location loc,
                                         const TensorProto &tensor,
                                         std::optional<ByteRange> range) {
  FailureOr<RankedTensorType> type = getType(loc, tensor);
  if (failed(type))
    return failure();
  Place place;
  if (isPacked(type->getElementType()))
    return readElements(loc, tensor);
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    FailureOr<Place> found = findExternal(loc, tensor, *type);
    if (failed(found))
      return failure();
    place = std::move(*found);
  } else if (range && range->size == getBytes(*type)) {
    place = {model.getFileName().str(), *range};
  } else {
    return readElements(loc, tensor);
  }
  return cast<TypedAttr>(
      ExternalAttr::get(model.getContext(), *type,
                        StringAttr::get(model.getContext(), place.location),
                        place.range.offset, place.range.size, StringAttr()));
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
