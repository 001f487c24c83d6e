//===- Metadata.cpp - Binade's metadata in ONNX files ---------------------===//

#include "binade/ONNX/Metadata.h"
#include "binade/Container/Json.h"
#include "binade/IR/Binade.h"
#include "binade/ONNX/Producer.h"
#include "binade/ONNX/TorchExport.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace mlir::binade;
using nlohmann::json;

static constexpr int64_t kVersion = 1;

namespace {
/// Reads the keys `binade.*`. Errors name the key that is being read.
class MetadataReader {
public:
  explicit MetadataReader(const Model &model) : model(model) {
    for (const auto &input : model.getGraph().input())
      inputs.insert(input.name());
    for (const auto &tensor : model.getGraph().initializer())
      initializers.insert(tensor.name());
  }

  FailureOr<Metadata> read();

private:
  InFlightDiagnostic emitError() {
    return model.emitError("metadata " + quote(key));
  }
  LogicalResult checkName(StringRef name) {
    if (inputs.contains(name) || initializers.contains(name))
      return success();
    return emitError() << "names " << quote(name)
                       << ", which is neither an initializer nor an input";
  }
  LogicalResult readVersion(const json &value);
  LogicalResult readTrainable(const json &value);
  LogicalResult readFrozen(const json &value);
  LogicalResult readNames(const json &value, llvm::StringSet<> &names);
  LogicalResult readBuffers(const json &value);
  LogicalResult readDims(const json &value);
  LogicalResult readInitial(const json &value);
  FailureOr<InitialRule> readRule(StringRef name, const json &value);

  const Model &model;
  llvm::StringSet<> inputs, initializers;
  std::string key;
  Metadata metadata;
};
} // namespace

FailureOr<Metadata> MetadataReader::read() {
  using Reader = LogicalResult (MetadataReader::*)(const json &);
  static constexpr std::pair<StringLiteral, Reader> readers[] = {
      {"binade.version", &MetadataReader::readVersion},
      {"binade.trainable", &MetadataReader::readTrainable},
      {"binade.frozen", &MetadataReader::readFrozen},
      {"binade.buffers", &MetadataReader::readBuffers},
      {"binade.dims", &MetadataReader::readDims},
      {"binade.init", &MetadataReader::readInitial},
  };
  for (const auto &entry : model.getProto().metadata_props()) {
    const auto *reader = llvm::find_if(readers, [&](auto &candidate) {
      return candidate.first == entry.key();
    });
    key = entry.key();
    // `binade convert` writes this key for readers of the file only.
    if (key == "binade.converted")
      continue;
    if (reader == std::end(readers)) {
      if (StringRef(key).starts_with("binade."))
        return emitError() << "is not a key that this version knows";
      continue;
    }
    auto value = ::binade::parseJson(entry.value(), "metadata " + quote(key));
    if (!value)
      return mlir::binade::emitError(model.getLoc(), value.error());
    if (failed((this->*reader->second)(*value)))
      return failure();
  }
  return std::move(metadata);
}

LogicalResult MetadataReader::readVersion(const json &value) {
  metadata.isVersioned = true;
  if (value.is_number_integer() && value.get<int64_t>() == kVersion)
    return success();
  return emitError() << "is " << value.dump() << "; this build reads version "
                     << kVersion;
}

LogicalResult MetadataReader::readNames(const json &value,
                                        llvm::StringSet<> &names) {
  if (!value.is_array() ||
      !llvm::all_of(value, [](const json &name) { return name.is_string(); }))
    return emitError() << "expected a list of names";
  for (const json &name : value) {
    if (failed(checkName(name.get_ref<const std::string &>())))
      return failure();
    names.insert(name.get_ref<const std::string &>());
  }
  return success();
}

LogicalResult MetadataReader::readTrainable(const json &value) {
  return readNames(value, metadata.trainable.emplace());
}

LogicalResult MetadataReader::readFrozen(const json &value) {
  return readNames(value, metadata.frozen);
}

LogicalResult MetadataReader::readBuffers(const json &value) {
  if (!value.is_object())
    return emitError() << "expected an object from names to descriptions";
  for (const auto &[name, buffer] : value.items()) {
    if (failed(checkName(name)))
      return failure();
    if (!buffer.is_object() || !buffer.contains("kind"))
      return emitError() << "expected 'kind' for " << quote(name);
    bool isUnbiased = false;
    for (const auto &[word, setting] : buffer.items()) {
      if (word == "kind" &&
          (setting == "running_mean" || setting == "running_variance"))
        continue;
      if (word != "unbiased" || !setting.is_boolean())
        return emitError() << "has " << quote(word) << ": " << setting.dump()
                           << " for " << quote(name)
                           << ", which this version does not know";
      isUnbiased = setting.get<bool>();
    }
    if (isUnbiased)
      metadata.unbiased.insert(name);
  }
  return success();
}

LogicalResult MetadataReader::readDims(const json &value) {
  if (!value.is_object())
    return emitError() << "expected an object from dimensions to sizes";
  for (const auto &[name, size] : value.items()) {
    if (!size.is_number_integer() || size < 1)
      return emitError() << "has the size " << size.dump() << " for "
                         << quote(name) << "; expected a positive integer";
    metadata.dims[name] = size.get<int64_t>();
  }
  return success();
}

LogicalResult MetadataReader::readInitial(const json &value) {
  if (!value.is_object())
    return emitError() << "expected an object from names to rules";
  for (const auto &[name, rule] : value.items()) {
    if (initializers.contains(name))
      return emitError() << "has a rule for " << quote(name)
                         << ", which is an initializer with a value";
    if (failed(checkName(name)))
      return failure();
    FailureOr<InitialRule> read = readRule(name, rule);
    if (failed(read))
      return failure();
    metadata.initial[name] = *read;
  }
  return success();
}

FailureOr<InitialRule> MetadataReader::readRule(StringRef name,
                                                const json &value) {
  auto reject = [&]() -> LogicalResult {
    return emitError() << "has the rule " << value.dump() << " for "
                       << quote(name) << ", which this version does not know";
  };
  if (!value.is_object() || !value.contains("rule") ||
      !value["rule"].is_string())
    return reject();
  size_t numKnown = 1;
  auto number = [&](const char *word) -> std::optional<double> {
    if (!value.contains(word))
      return std::nullopt;
    ++numKnown;
    return value[word].is_number() ? std::optional(value[word].get<double>())
                                   : std::nullopt;
  };
  std::string kind = value["rule"].get<std::string>();
  std::optional<double> first, second = 0.0;
  if (kind == "normal") {
    first = value.contains("mean") ? number("mean") : 0.0;
    second = number("std");
  } else if (kind == "uniform") {
    first = number("low");
    second = number("high");
  } else if (kind == "constant") {
    first = number("value");
  } else if (kind == "zeros" || kind == "ones") {
    first = kind == "ones" ? 1.0 : 0.0;
    kind = "constant";
  }
  if (!first || !second || numKnown != value.size() ||
      (kind == "normal" && *second < 0) ||
      (kind == "uniform" && *first > *second))
    return reject();
  // Uniform values are drawn as the lower end plus a fraction of the length.
  if (kind == "uniform")
    *second -= *first;
  return InitialRule{kind, *first, *second};
}

static bool isFloat(int32_t type) {
  using ::onnx::TensorProto;
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE ||
         type == TensorProto::FLOAT16 || type == TensorProto::BFLOAT16;
}

/// Takes the facts that Binade's keys do not state from those that the
/// exporter wrote.
static void addExporterFacts(const Model &model, Metadata &metadata) {
  for (const std::string &layer : findFoldedNorms(model.getProto()))
    metadata.absent.insert(layer);
  std::optional<TorchSignature> signature =
      TorchSignature::read(model.getGraph());
  if (!signature)
    return;
  metadata.hasSignature = true;
  for (const TorchTensor &tensor : signature->getTensors())
    if (tensor.isParameter)
      metadata.absent.insert(tensor.target);
  llvm::StringSet<> &trainable = metadata.trainable.emplace();
  for (const auto &tensor : model.getGraph().initializer())
    if (metadata.absent.erase(tensor.name()) && isFloat(tensor.data_type()))
      trainable.insert(tensor.name());
  // PyTorch's running variance is that of a sample.
  for (const auto &node : model.getGraph().node())
    if (node.op_type() == "BatchNormalization" && node.input_size() == 5 &&
        getTorchCall(node).op.contains("batch_norm"))
      metadata.unbiased.insert(node.input(4));
}

FailureOr<Metadata> mlir::binade::readMetadata(const Model &model) {
  FailureOr<Metadata> metadata = MetadataReader(model).read();
  if (succeeded(metadata) && !metadata->isVersioned && !metadata->trainable)
    addExporterFacts(model, *metadata);
  return metadata;
}

Attribute mlir::binade::getInitialValue(const InitialRule &rule,
                                        RankedTensorType type) {
  Builder b(type.getContext());
  if (rule.kind == "constant") {
    Type element = type.getElementType();
    return DenseElementsAttr::get(
        type, Attribute(b.getFloatAttr(element, rule.origin)));
  }
  return RandomAttr::get(type.getContext(), b.getStringAttr(rule.kind),
                         b.getF64FloatAttr(rule.origin),
                         b.getF64FloatAttr(rule.scale));
}
