//===- ExportTrained.cpp - Export of trained models -----------------------===//

#include "binade/Export/ExportTrained.h"
#include "Inference.h"
#include "StableEmbedding.h"
#include "binade/Container/AtomicFile.h"
#include "binade/ONNX/ExternalDataWriter.h"
#include "binade/ONNX/Initializers.h"
#include "binade/ONNX/Order.h"
#include "binade/ONNX/RestoreParameters.h"
#include "mlir/IR/Location.h"
#include "onnx-ml.pb.h"
#include <filesystem>

using namespace mlir;
using namespace mlir::binade;
using ::binade::AtomicFile;
using ::binade::DType;
using ::binade::TensorInfo;
using ::onnx::TensorProto;

static std::optional<DType> getDType(int32_t type) {
  switch (type) {
  case TensorProto::FLOAT:
    return DType::F32;
  case TensorProto::DOUBLE:
    return DType::F64;
  case TensorProto::FLOAT16:
    return DType::F16;
  case TensorProto::BFLOAT16:
    return DType::BF16;
  default:
    return std::nullopt;
  }
}

namespace {
/// Exports one model; the methods are in the order of the steps.
class Exporter {
public:
  Exporter(Model &model, const TrainedValues &values,
           const ExportOptions &options, StringRef output, ExportReport &report)
      : model(model), values(values), options(options), output(output.str()),
        report(report), tensors(model, options.allowHardLinks),
        data(this->output) {}

  LogicalResult run();

private:
  LogicalResult findStateTensors();
  LogicalResult checkValues();
  void addInitializers();
  LogicalResult prepareGraph();
  void collectNames(std::vector<std::string> &inputs,
                    std::vector<std::string> &outputs) const;
  LogicalResult checkPlaces();
  LogicalResult openData();
  FailureOr<std::vector<char>>
  readBytes(const TensorProto &tensor, const std::optional<std::string> &value);
  LogicalResult writeTensor(TensorProto &tensor);
  LogicalResult moveTensor(TensorProto &tensor,
                           const std::optional<std::string> &value);
  LogicalResult writeFiles();

  LogicalResult fail(Location loc, const ::binade::Error &error) {
    report.exitCode = error.exitCode;
    return emitError(loc, error);
  }
  Location getValuesLoc() const {
    return FileLineColLoc::get(model.getContext(), values.where, 0, 0);
  }
  Location getLoc(const TensorProto &tensor) const {
    return model.getLoc("initializer " + quote(tensor.name()));
  }
  ::onnx::GraphProto &getGraph() { return *model.getProto().mutable_graph(); }
  uint64_t countBytes(const TensorProto &tensor);
  /// Returns the name that `tensor` has among the trained values, if any.
  std::optional<std::string> findValue(const TensorProto &tensor) const;

  Model &model;
  const TrainedValues &values;
  const ExportOptions &options;
  std::string output;
  ExportReport &report;
  TensorReader tensors;
  std::vector<Initializers::StateTensor> kept;
  /// Maps the names of state tensors to their owners.
  llvm::StringMap<std::string> owners;
  ExternalDataWriter data;
  bool isTooLarge = false;
  llvm::StringMap<ByteRange> places; ///< The ranges in `data`.
};
} // namespace

//===----------------------------------------------------------------------===//
// Trained values
//===----------------------------------------------------------------------===//

LogicalResult Exporter::findStateTensors() {
  // The run names the parameters as the import did. It may lack any of them.
  if (failed(restoreParameters(model, tensors, /*allowed=*/{"*"})))
    return failure();
  FailureOr<SmallVector<unsigned>> order =
      sortNodes(model, std::as_const(model).getGraph());
  if (failed(order))
    return failure();
  FailureOr<Metadata> metadata = readMetadata(model);
  if (failed(metadata))
    return failure();
  InitializerChoice choice;
  choice.fold = options.fold;
  choice.train = options.train;
  choice.alsoTrain = options.alsoTrain;
  TensorGroup ignored;
  Initializers initializers(model, *metadata);
  if (failed(initializers.classify(
          *order, collectUsed(std::as_const(model).getGraph(), *order),
          Dimensions(), tensors, choice, ignored, /*trainsMatrices=*/false,
          /*warns=*/false)))
    return failure();
  auto found = initializers.getStateTensors(tensors);
  if (failed(found))
    return failure();
  kept = std::move(*found);
  for (const Initializers::StateTensor &tensor : kept)
    owners[tensor.name] = tensor.owner;
  return success();
}

static std::string describe(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  llvm::interleaveComma(shape, stream);
  stream << "]";
  return text;
}

std::optional<std::string>
Exporter::findValue(const TensorProto &tensor) const {
  auto owner = owners.find(tensor.name());
  std::string name = owner == owners.end() ? tensor.name() : owner->second;
  bool isKnown = getDType(tensor.data_type()) && values.find(name);
  return isKnown ? std::optional(name) : std::nullopt;
}

/// Checks that the values fit the model; one error lists all that do not.
LogicalResult Exporter::checkValues() {
  std::vector<std::string> missing, misshapen;
  llvm::StringSet<> used;
  auto check = [&](const std::string &name, const std::string &owner,
                   ArrayRef<int64_t> shape, bool isRequired) {
    const TensorInfo *info = values.find(owner);
    if (!info && isRequired && name == owner)
      missing.push_back(quote(name) + " " + describe(shape));
    if (info && ArrayRef(info->shape) != shape)
      misshapen.push_back(quote(name) + " is " + describe(info->shape) +
                          ", in the model " + describe(shape));
    used.insert(owner);
    used.insert(name);
  };
  for (const Initializers::StateTensor &tensor : kept)
    check(tensor.name, tensor.owner, tensor.type.getShape(), true);
  for (const TensorProto &tensor : getGraph().initializer())
    if (!owners.contains(tensor.name()) && getDType(tensor.data_type()))
      check(tensor.name(), tensor.name(),
            ArrayRef(tensor.dims().data(), tensor.dims().size()), false);
  for (const std::string &name : values.names)
    if (!used.contains(name))
      report.unknown.push_back(name);
  if (missing.empty() && misshapen.empty())
    return success();
  InFlightDiagnostic error = mlir::emitError(getValuesLoc());
  error << "does not fit the model "
        << ::binade::printable(model.getFileName().str());
  for (const std::string &text : missing)
    error.attachNote() << "lacks " << text;
  for (const std::string &text : misshapen)
    error.attachNote() << text;
  if (!missing.empty())
    error.attachNote()
        << "--fold GLOB names tensors that were constants of the step";
  return error;
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

/// Turns inputs with a rule for initial values into initializers.
void Exporter::addInitializers() {
  llvm::StringSet<> known;
  for (const TensorProto &tensor : getGraph().initializer())
    known.insert(tensor.name());
  auto &inputs = *getGraph().mutable_input();
  for (const Initializers::StateTensor &tensor : kept) {
    if (known.contains(tensor.name))
      continue;
    auto input = llvm::find_if(
        inputs, [&](const auto &input) { return input.name() == tensor.name; });
    TensorProto &added = *getGraph().add_initializer();
    added.set_name(tensor.name);
    added.set_data_type(input->type().tensor_type().elem_type());
    for (int64_t size : tensor.type.getShape())
      added.add_dims(size);
    inputs.erase(input);
  }
}

void Exporter::collectNames(std::vector<std::string> &inputs,
                            std::vector<std::string> &outputs) const {
  const ::onnx::GraphProto &graph = std::as_const(model).getGraph();
  llvm::StringSet<> initialized;
  for (const TensorProto &tensor : graph.initializer())
    initialized.insert(tensor.name());
  for (const auto &input : graph.input())
    if (!initialized.contains(input.name()))
      inputs.push_back(input.name());
  for (const auto &output : graph.output())
    outputs.push_back(output.name());
}

LogicalResult Exporter::prepareGraph() {
  addInitializers();
  std::vector<std::string> before;
  collectNames(before, before);
  if (!options.training) {
    makeInference(getGraph());
    if (failed(selectOutputs(model, options)))
      return failure();
    removeUnused(getGraph());
  }
  updateMetadata(model.getProto());
  collectNames(report.inputs, report.outputs);
  for (const std::string &name : before)
    if (!llvm::is_contained(report.inputs, name) &&
        !llvm::is_contained(report.outputs, name))
      report.leftOut.push_back(name);
  report.nodes = getGraph().node_size();
  return success();
}

//===----------------------------------------------------------------------===//
// Storage of weights
//===----------------------------------------------------------------------===//

/// Fails if the output would overwrite a file of the model.
LogicalResult Exporter::checkPlaces() {
  namespace fs = std::filesystem;
  llvm::StringSet<> sources;
  sources.insert(model.getFileName());
  for (const TensorProto &tensor : getGraph().initializer())
    for (const auto &entry : tensor.external_data())
      if (isExternal(tensor) && entry.key() == "location")
        sources.insert(entry.value());
  for (const std::string &target : {output, data.getPath()})
    for (StringRef source : sources.keys()) {
      std::error_code ignored;
      if (fs::equivalent(target, fs::path(model.getDirectory()) / source.str(),
                         ignored))
        return model.emitError() << "cannot be written to " << quote(target)
                                 << ", which is a file of the model itself";
    }
  return success();
}

/// Returns the size of the elements, whose type was checked before.
uint64_t Exporter::countBytes(const TensorProto &tensor) {
  return getBytes(*tensors.getType(getLoc(tensor), tensor));
}

/// Decides where weights are stored, and opens the file of external data.
LogicalResult Exporter::openData() {
  uint64_t bytes = 0;
  bool hasExternal = false;
  for (const TensorProto &tensor : getGraph().initializer()) {
    bytes += countBytes(tensor);
    hasExternal |= isExternal(tensor);
  }
  isTooLarge = options.weights == ExportOptions::Weights::External ||
               bytes > kMaxInlineBytes;
  if (options.weights == ExportOptions::Weights::Inline) {
    if (isTooLarge)
      return model.emitError() << "has " << bytes << " bytes of weights: too "
                               << "many for --weights inside";
    return success();
  }
  if (!hasExternal && !isTooLarge)
    return success();
  if (auto opened = data.open(); !opened)
    return fail(model.getLoc(), opened.error());
  report.data = data.getPath();
  return success();
}

FailureOr<std::vector<char>>
Exporter::readBytes(const TensorProto &tensor,
                    const std::optional<std::string> &value) {
  if (!value)
    return tensors.readBytes(getLoc(tensor), tensor);
  auto read = values.read(*value, *getDType(tensor.data_type()));
  if (!read)
    return fail(getValuesLoc(), read.error());
  ++report.tensors;
  report.bytes += read->size();
  auto *begin = reinterpret_cast<const char *>(read->data());
  return std::vector<char>(begin, begin + read->size());
}

LogicalResult Exporter::writeTensor(TensorProto &tensor) {
  std::optional<std::string> value = findValue(tensor);
  bool leaves = isExternal(tensor) || value ||
                (isTooLarge && countBytes(tensor) >= kMinExternalBytes);
  if (data.isOpen() && leaves)
    return moveTensor(tensor, value);
  if (!value && !isExternal(tensor))
    return success();
  FailureOr<std::vector<char>> bytes = readBytes(tensor, value);
  if (failed(bytes))
    return failure();
  clearData(tensor);
  tensor.set_raw_data(bytes->data(), bytes->size());
  return success();
}

/// Writes a tensor to the external data. Tensors that share a value, or a range
/// in the original, share a range.
LogicalResult Exporter::moveTensor(TensorProto &tensor,
                                   const std::optional<std::string> &value) {
  std::string key = value.value_or(tensor.name());
  if (!value && isExternal(tensor)) {
    key.clear();
    for (const auto &entry : tensor.external_data())
      key += "\n" + entry.key() + "=" + entry.value();
  }
  auto [place, isNew] = places.try_emplace(key);
  if (isNew) {
    FailureOr<std::vector<char>> bytes = readBytes(tensor, value);
    if (failed(bytes))
      return failure();
    place->second = data.allocate(bytes->size());
    auto written =
        data.write(place->second.offset, std::as_bytes(std::span(*bytes)));
    if (!written)
      return fail(model.getLoc(), written.error());
  }
  data.refer(tensor, place->second);
  return success();
}

/// Writes the external data before the model, so that a model never refers to
/// missing data.
LogicalResult Exporter::writeFiles() {
  std::string bytes;
  if (!model.getProto().SerializeToString(&bytes))
    return model.emitError() << "is too large for an ONNX file";
  auto file = AtomicFile::create(output);
  if (!file)
    return fail(model.getLoc(), file.error());
  auto done = file->write(0, std::as_bytes(std::span(bytes)));
  if (done)
    done = data.commit();
  if (done)
    done = file->commit();
  return done ? success() : fail(model.getLoc(), done.error());
}

LogicalResult Exporter::run() {
  auto hasValue = [&](StringRef name) { return values.find(name) != nullptr; };
  if (failed(model.findOpset()) || failed(model.checkSupported()) ||
      failed(findStateTensors()) ||
      failed(addStableEmbeddings(model, owners, hasValue)) ||
      failed(checkValues()) || failed(checkPlaces()) ||
      failed(prepareGraph()) || failed(openData()))
    return failure();
  for (TensorProto &tensor : *getGraph().mutable_initializer())
    if (failed(writeTensor(tensor)))
      return failure();
  return writeFiles();
}

LogicalResult
mlir::binade::exportTrained(StringRef path, const TrainedValues &values,
                            const ExportOptions &options, StringRef output,
                            MLIRContext *context, ExportReport &report) {
  Model model(context, path);
  return success(
      succeeded(model.read()) &&
      succeeded(Exporter(model, values, options, output, report).run()));
}
