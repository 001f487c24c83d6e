//===- Weights.cpp - Stored tensors on their way to a new file ------------===//

#include "Weights.h"
#include "binade/Container/FloatConversion.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <filesystem>

using namespace mlir;
using namespace mlir::binade::convert;
using ::binade::Error;
using ::binade::Result;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

/// Beyond this, weights leave the file: at 2 GiB nothing reads it.
static constexpr uint64_t kMaxInlineBytes = uint64_t(1) << 30;
/// Smaller ones stay in the file even then.
static constexpr uint64_t kMinExternalBytes = 1 << 10;
static constexpr uint64_t kAlignment = 64;
/// Elements that are in memory at once.
static constexpr size_t kPiece = 1 << 20;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// Rounds to nearest even; `isClamped` keeps finite numbers finite.
template <bool isClamped>
static void convert(std::span<const float> from, int32_t type, uint16_t *to) {
  auto clamp = [](float value, float largest) {
    if (!isClamped || !std::isfinite(value))
      return value;
    return std::min(std::max(value, -largest), largest);
  };
  if (type == TensorProto::FLOAT16)
    for (size_t i = 0; i < from.size(); ++i)
      to[i] = ::binade::floatToF16(clamp(from[i], 65504.0f));
  else
    for (size_t i = 0; i < from.size(); ++i)
      to[i] = ::binade::floatToBF16(clamp(from[i], 0x1.fep127f));
}

static void clearData(TensorProto &tensor) {
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.clear_external_data();
  tensor.clear_data_location();
}

void mlir::binade::convert::convertConstant(TensorProto &tensor, int32_t type) {
  std::vector<float> values(tensor.float_data().begin(),
                            tensor.float_data().end());
  if (tensor.has_raw_data()) {
    values.resize(tensor.raw_data().size() / sizeof(float));
    std::memcpy(values.data(), tensor.raw_data().data(),
                values.size() * sizeof(float));
  }
  std::string bytes(values.size() * sizeof(uint16_t), 0);
  ::convert<true>(values, type, reinterpret_cast<uint16_t *>(bytes.data()));
  clearData(tensor);
  tensor.set_data_type(type);
  tensor.set_raw_data(std::move(bytes));
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static bool isExternal(const TensorProto &tensor) {
  return tensor.data_location() == TensorProto::EXTERNAL;
}

static Error makeError(const TensorProto &tensor, std::string message) {
  Error error{"", std::move(message)};
  error.part = "tensor " + ::binade::quote(tensor.name());
  return error;
}

Result<WeightWriter::Place> WeightWriter::find(const TensorProto &tensor) {
  Place place;
  std::optional<uint64_t> length;
  for (const auto &entry : tensor.external_data()) {
    if (entry.key() == "location") {
      place.location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      std::optional<uint64_t> number = ::binade::parseDecimal(entry.value());
      if (!number)
        return makeError(tensor, "expected external " + entry.key() +
                                     " to be a decimal number, got " +
                                     ::binade::quote(entry.value()));
      (entry.key() == "offset" ? place.offset : length.emplace()) = *number;
    }
  }
  if (place.location.empty())
    return makeError(tensor, "external data name no file");
  auto file = files.find(place.location);
  if (file == files.end()) {
    ::binade::OpenOptions options;
    options.allowHardLinks = allowHardLinks;
    auto opened = ::binade::openBeneath(directory, place.location, options);
    if (!opened)
      return opened.takeError().withPart("tensor " +
                                         ::binade::quote(tensor.name()));
    std::error_code ignored;
    if (std::filesystem::equivalent(
            path, std::filesystem::path(directory) / place.location, ignored))
      return makeError(tensor, "lies in " + ::binade::quote(path) +
                                   ", which would be overwritten; choose "
                                   "another output");
    file = files.try_emplace(place.location, std::move(*opened)).first;
  }
  uint64_t size = file->second.getSize();
  place.size = length.value_or(size - std::min(size, place.offset));
  auto checked = ::binade::checkRange(file->second, place.offset, place.size);
  if (!checked)
    return checked.takeError().withPart("tensor " +
                                        ::binade::quote(tensor.name()));
  return place;
}

Result<void> WeightWriter::copy(const Place &from, uint64_t to,
                                bool isConverted, int32_t type) {
  const ::binade::ExternalFile &file = files.find(from.location)->second;
  std::vector<float> piece(kPiece);
  std::vector<uint16_t> narrow(isConverted ? kPiece : 0);
  for (uint64_t done = 0; done < from.size;) {
    size_t bytes = std::min<uint64_t>(from.size - done, kPiece * sizeof(float));
    auto part = std::as_writable_bytes(std::span(piece)).first(bytes);
    if (auto read = ::binade::readRange(file, from.offset + done, part); !read)
      return read.takeError();
    done += bytes;
    std::span<const std::byte> result = part;
    if (isConverted) {
      size_t count = bytes / sizeof(float);
      ::convert<false>(std::span(piece).first(count), type, narrow.data());
      result = std::as_bytes(std::span(narrow).first(count));
    }
    if (auto written = data->write(to, result); !written)
      return written.takeError();
    to += result.size();
  }
  return {};
}

/// `type` is the tensor's own where nothing is converted.
Result<void> WeightWriter::move(TensorProto &tensor, int32_t type) {
  bool isConverted = type != tensor.data_type();
  if (!isExternal(tensor)) {
    if (isConverted)
      convertConstant(tensor, type);
    bool leaves = movesAll && tensor.raw_data().size() >= kMinExternalBytes;
    if (!leaves)
      return {};
  }
  if (!data) {
    auto created = ::binade::AtomicFile::create(path);
    if (!created)
      return created.takeError();
    data.emplace(*std::move(created));
  }
  uint64_t offset = llvm::alignTo(end, kAlignment), size = 0;
  if (isExternal(tensor)) {
    auto found = find(tensor);
    if (!found)
      return found.takeError();
    if (isConverted && found->size % sizeof(float) != 0)
      return makeError(tensor, "has " + std::to_string(found->size) +
                                   " bytes, which are no numbers of f32");
    size = isConverted ? found->size / 2 : found->size;
    std::string key = found->location + "\n" + std::to_string(found->offset) +
                      " " + std::to_string(found->size) + " " +
                      std::to_string(type);
    auto [place, isNew] = places.try_emplace(key);
    if (isNew) {
      place->second = {path, offset, size};
      if (auto copied = copy(*found, offset, isConverted, type); !copied)
        return copied.takeError();
      end = offset + size;
    }
    offset = place->second.offset;
  } else {
    size = tensor.raw_data().size();
    auto written =
        data->write(offset, std::as_bytes(std::span(tensor.raw_data())));
    if (!written)
      return written.takeError();
    end = offset + size;
  }
  moved.insert(&tensor);
  clearData(tensor);
  tensor.set_data_type(type);
  tensor.set_data_location(TensorProto::EXTERNAL);
  auto add = [&](const char *key, const std::string &text) {
    auto &entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(text);
  };
  add("location", std::filesystem::path(path).filename());
  add("offset", std::to_string(offset));
  add("length", std::to_string(size));
  return {};
}

//===----------------------------------------------------------------------===//
// All tensors
//===----------------------------------------------------------------------===//

using Visit = llvm::function_ref<Result<void>(TensorProto &)>;

/// Calls `visit` for the tensors of nodes, at any depth.
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
                                 const llvm::StringMap<int32_t> &stored) {
  uint64_t bytes = 0;
  for (const TensorProto &tensor : model.graph().initializer())
    bytes += tensor.raw_data().size();
  movesAll = bytes > kMaxInlineBytes;
  for (TensorProto &tensor : *model.mutable_graph()->mutable_initializer()) {
    auto type = stored.find(tensor.name());
    if (auto done = move(tensor, type == stored.end() ? tensor.data_type()
                                                      : type->second);
        !done)
      return done;
  }
  // The rest is moved if it lies outside.
  auto keep = [&](TensorProto &tensor) -> Result<void> {
    return isExternal(tensor) && !moved.contains(&tensor)
               ? move(tensor, tensor.data_type())
               : Result<void>();
  };
  if (auto done = walkTensors(*model.mutable_graph(), keep); !done)
    return done;
  for (auto &function : *model.mutable_functions())
    if (auto done = walkNodes(*function.mutable_node(), keep); !done)
      return done;
  return {};
}

Result<void> WeightWriter::commit() {
  return data ? data->commit() : Result<void>();
}
