//===- Weights.cpp - Conversion of stored tensors -------------------------===//

#include "Weights.h"
#include "ElementTypes.h"
#include "RoundWeights.h"
#include "TensorCodes.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include <filesystem>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::binade::Error;
using ::binade::Result;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

/// The bytes of an f16 or bf16 element.
static constexpr uint64_t kNarrowBytes = 2;
/// The maximum number of elements in memory at once.
static constexpr size_t kPiece = 1 << 20;

//===----------------------------------------------------------------------===//
// Tensors in the message
//===----------------------------------------------------------------------===//

/// Returns the elements of an f32 tensor whose data are in the message.
static std::vector<float> getValues(const TensorProto &tensor) {
  std::vector<float> values(tensor.float_data().begin(),
                            tensor.float_data().end());
  if (tensor.has_raw_data()) {
    values.resize(tensor.raw_data().size() / sizeof(float));
    std::memcpy(values.data(), tensor.raw_data().data(),
                values.size() * sizeof(float));
  }
  return values;
}

static void setBytes(TensorProto &tensor, int32_t type, std::string bytes) {
  clearData(tensor);
  tensor.set_data_type(type);
  tensor.set_raw_data(std::move(bytes));
}

void mlir::binade::convert::convertConstant(TensorProto &tensor, int32_t type) {
  std::vector<float> values = getValues(tensor);
  std::string bytes(values.size() * kNarrowBytes, 0);
  encode(values, type, bytes.data());
  setBytes(tensor, type, std::move(bytes));
}

static ArrayRef<int64_t> getShape(const TensorProto &tensor) {
  return {tensor.dims().data(), size_t(tensor.dims_size())};
}

/// Sets the data of an initializer to the scales of `codes`.
static void setScales(TensorProto &tensor, const TensorCodes &codes) {
  tensor.clear_dims();
  for (int64_t size : codes.getScaleShape())
    tensor.add_dims(size);
  ArrayRef<float> scales = codes.getScales();
  setBytes(tensor, TensorProto::FLOAT,
           std::string(reinterpret_cast<const char *>(scales.data()),
                       scales.size() * sizeof(float)));
}

/// Converts a tensor whose data are in the message.
static void convertInside(TensorProto &tensor, const StoredFormat &format,
                          TensorProto *scales) {
  if (!scales)
    return convertConstant(tensor, format.type);
  std::vector<float> values = getValues(tensor);
  TensorCodes codes(format.codes, getShape(tensor));
  std::string bytes(values.size(), 0);
  if (codes.isMeasured())
    codes.measure(values);
  codes.encode(values, bytes.data());
  setBytes(tensor, format.type, std::move(bytes));
  setScales(*scales, codes);
}

//===----------------------------------------------------------------------===//
// External data
//===----------------------------------------------------------------------===//

static Error makeError(const TensorProto &tensor, std::string message) {
  Error error{"", std::move(message)};
  error.part = "initializer " + ::binade::quote(tensor.name());
  return error;
}

/// Returns the bytes of the elements of `tensor`. The import has validated the
/// same file before.
static uint64_t countBytes(const TensorProto &tensor) {
  uint64_t elements = 1;
  for (int64_t size : tensor.dims())
    elements *= size;
  return llvm::divideCeil(elements * getElementBits(tensor.data_type()), 8);
}

Result<WeightWriter::Place> WeightWriter::find(const TensorProto &tensor) {
  ExternalData::Entries entries;
  for (const auto &entry : tensor.external_data())
    entries.push_back({entry.key(), entry.value()});
  auto found = external.find(
      entries, countBytes(tensor),
      ::onnx::TensorProto::DataType_Name(
          static_cast<TensorProto::DataType>(tensor.data_type())));
  if (!found)
    return found.takeError().withPart("initializer " +
                                      ::binade::quote(tensor.name()));
  std::error_code ignored;
  if (std::filesystem::equivalent(
          data.getPath(), std::filesystem::path(directory) / found->location,
          ignored))
    return makeError(tensor, "is stored in " + ::binade::quote(data.getPath()) +
                                 ", which would be overwritten; choose "
                                 "another output");
  return Place{found->location, {found->offset, found->size}};
}

Result<void> WeightWriter::readPieces(const Place &from, size_t band,
                                      Visit visit) {
  const ::binade::ExternalFile &file = external.getFile(from.location);
  size_t most = std::max<size_t>(kPiece / band, 1) * band;
  std::vector<float> piece(
      std::min<uint64_t>(most, from.range.size / sizeof(float)));
  for (uint64_t done = 0; done < from.range.size;) {
    auto part = std::span(piece).first(std::min<uint64_t>(
        (from.range.size - done) / sizeof(float), piece.size()));
    if (auto read = ::binade::readRange(file, from.range.offset + done,
                                        std::as_writable_bytes(part));
        !read)
      return read;
    if (auto visited = visit(part); !visited)
      return visited;
    done += part.size_bytes();
  }
  return {};
}

/// Reads f32 elements and writes them rounded to `type`.
Result<void> WeightWriter::encode(const Place &from, uint64_t to,
                                  int32_t type) {
  std::vector<char> bytes;
  return readPieces(from, /*band=*/1, [&](std::span<float> values) {
    bytes.resize(values.size() * kNarrowBytes);
    convert::encode(values, type, bytes.data());
    auto written = data.write(to, std::as_bytes(std::span(bytes)));
    to += bytes.size();
    return written;
  });
}

Result<void> WeightWriter::encode(const Place &from, uint64_t to,
                                  TensorCodes &codes) {
  auto measure = [&](std::span<float> values) -> Result<void> {
    codes.measure(values);
    return {};
  };
  if (codes.isMeasured())
    if (auto read = readPieces(from, codes.getBand(), measure); !read)
      return read;
  std::vector<char> bytes;
  return readPieces(from, codes.getBand(), [&](std::span<float> values) {
    bytes.resize(values.size());
    codes.encode(values, bytes.data());
    auto written = data.write(to, std::as_bytes(std::span(bytes)));
    to += bytes.size();
    return written;
  });
}

Result<void> WeightWriter::copy(const Place &from, uint64_t to) {
  const ::binade::ExternalFile &file = external.getFile(from.location);
  std::vector<std::byte> piece(
      std::min<uint64_t>(from.range.size, kPiece * sizeof(float)));
  for (uint64_t done = 0; done < from.range.size;) {
    auto part = std::span(piece).first(
        std::min<uint64_t>(from.range.size - done, piece.size()));
    if (auto read = ::binade::readRange(file, from.range.offset + done, part);
        !read)
      return read;
    if (auto written = data.write(to + done, part); !written)
      return written;
    done += part.size();
  }
  return {};
}

/// Returns a key that is equal for tensors which become the same bytes.
static std::string makeKey(StringRef location, ByteRange range,
                           const TensorProto &tensor,
                           const StoredFormat &format) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << location << '\n'
     << range.offset << ' ' << range.size << ' ' << format.type;
  if (format.codes) {
    os << ' ' << format.codes.format;
    for (ArrayRef<int64_t> sizes :
         {ArrayRef<int64_t>(format.codes.block), getShape(tensor)})
      llvm::interleaveComma(sizes, os << ' ');
  }
  return key;
}

/// Moves the data of an external tensor and returns their new place. Tensors
/// that share a place in the original share the new one.
Result<WeightWriter::Place>
WeightWriter::moveExternal(const TensorProto &tensor,
                           const StoredFormat &format) {
  auto found = find(tensor);
  if (!found)
    return found;
  uint64_t count = found->range.size / sizeof(float);
  if (format.type && count * sizeof(float) != found->range.size)
    return makeError(
        tensor, "has " + std::to_string(found->range.size) +
                    " bytes, which is not a multiple of the 4 bytes of f32");
  std::string key = makeKey(found->location, found->range, tensor, format);
  auto [place, isNew] = places.try_emplace(key);
  Place &to = place->second;
  if (!isNew)
    return to;
  Result<void> written;
  if (format.codes) {
    auto codes = std::make_shared<TensorCodes>(format.codes, getShape(tensor));
    to.range = data.allocate(count);
    written = encode(*found, to.range.offset, *codes);
    to.codes = std::move(codes);
  } else if (format.type) {
    to.range = data.allocate(count * kNarrowBytes);
    written = encode(*found, to.range.offset, format.type);
  } else {
    to.range = data.allocate(found->range.size);
    written = copy(*found, to.range.offset);
  }
  if (!written)
    return written.takeError();
  return to;
}

Result<WeightWriter::Place>
WeightWriter::moveInside(const TensorProto &tensor) {
  Place to{"", data.allocate(tensor.raw_data().size())};
  auto written =
      data.write(to.range.offset, std::as_bytes(std::span(tensor.raw_data())));
  if (!written)
    return written.takeError();
  return to;
}

/// Converts a tensor, and moves its data if needed. Without a type in `format`,
/// the tensor keeps its type.
Result<void> WeightWriter::move(TensorProto &tensor, StoredFormat format) {
  if (format.type == tensor.data_type())
    format = {};
  TensorProto *scale = scales.lookup(format.scales);
  if (!isExternal(tensor)) {
    if (format.type)
      convertInside(tensor, format, scale);
    bool isMoved = movesAll || externalScales.contains(&tensor);
    if (!isMoved || tensor.raw_data().size() < kMinExternalBytes)
      return {};
  }
  if (auto opened = data.open(); !opened)
    return opened;
  auto place =
      isExternal(tensor) ? moveExternal(tensor, format) : moveInside(tensor);
  if (!place)
    return place.takeError();
  if (place->codes) {
    setScales(*scale, *place->codes);
    externalScales.insert(scale);
  }
  moved.insert(&tensor);
  data.refer(tensor, place->range);
  if (format.type)
    tensor.set_data_type(format.type);
  return {};
}

//===----------------------------------------------------------------------===//
// All tensors
//===----------------------------------------------------------------------===//

using Visit = llvm::function_ref<Result<void>(TensorProto &)>;

/// Calls `visit` for the tensors of nodes and their subgraphs.
template <typename Nodes>
static Result<void> walkNodes(Nodes &nodes, Visit visit);

static Result<void> walkTensors(GraphProto &graph, Visit visit) {
  for (TensorProto &tensor : *graph.mutable_initializer())
    if (auto done = visit(tensor); !done)
      return done;
  for (auto &sparse : *graph.mutable_sparse_initializer())
    for (TensorProto *tensor :
         {sparse.mutable_values(), sparse.mutable_indices()})
      if (auto done = visit(*tensor); !done)
        return done;
  return walkNodes(*graph.mutable_node(), visit);
}

template <typename Nodes>
static Result<void> walkNodes(Nodes &nodes, Visit visit) {
  for (NodeProto &node : nodes)
    for (auto &attribute : *node.mutable_attribute()) {
      if (attribute.has_t())
        if (auto done = visit(*attribute.mutable_t()); !done)
          return done;
      for (TensorProto &tensor : *attribute.mutable_tensors())
        if (auto done = visit(tensor); !done)
          return done;
      if (attribute.has_g())
        if (auto done = walkTensors(*attribute.mutable_g(), visit); !done)
          return done;
      for (GraphProto &inner : *attribute.mutable_graphs())
        if (auto done = walkTensors(inner, visit); !done)
          return done;
    }
  return {};
}

Result<void> WeightWriter::write(::onnx::ModelProto &model,
                                 const StoredFormats &stored) {
  GraphProto &graph = *model.mutable_graph();
  uint64_t bytes = 0;
  for (const TensorProto &tensor : graph.initializer())
    bytes += tensor.raw_data().size();
  movesAll = bytes > kMaxInlineBytes;
  llvm::StringSet<> wanted;
  for (const auto &entry : stored)
    wanted.insert(entry.getValue().scales);
  for (TensorProto &tensor : *graph.mutable_initializer())
    if (wanted.contains(tensor.name()))
      scales[tensor.name()] = &tensor;
  for (TensorProto &tensor : *graph.mutable_initializer())
    if (auto done = move(tensor, stored.lookup(tensor.name())); !done)
      return done;
  // Move the external data of all other tensors.
  auto keep = [&](TensorProto &tensor) {
    return isExternal(tensor) && !moved.contains(&tensor) ? move(tensor, {})
                                                          : Result<void>();
  };
  if (auto done = walkTensors(graph, keep); !done)
    return done;
  for (auto &function : *model.mutable_functions())
    if (auto done = walkNodes(*function.mutable_node(), keep); !done)
      return done;
  return {};
}

Result<void> WeightWriter::commit() { return data.commit(); }
