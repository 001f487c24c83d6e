//===- Model.cpp - An ONNX file in memory ---------------------------------===//

#include "binade/ONNX/Model.h"
#include "UnknownFields.h"
#include "binade/Container/Magic.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"
#include "binade/ONNX/TorchExport.h"
#include "mlir/IR/Location.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

using namespace mlir;
using namespace mlir::binade;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedInputStream;

/// Protobuf addresses the bytes of a message with an int.
static constexpr size_t kMaxFileSize = (size_t(2) << 30) - 1;
/// The maximum depth of nested messages: a graph needs 5, each subgraph 3 more.
static constexpr int kMaxNesting = 100;
static constexpr size_t kMaxGraphs = (kMaxNesting - 5) / 3 + 1;
static constexpr int64_t kOldestOpset = 1;
static constexpr int64_t kNewestOpset = BINADE_ONNX_OPSET;

std::string mlir::binade::quote(StringRef name) {
  return ::binade::quote(std::string_view(name.data(), name.size()));
}

std::string mlir::binade::getNodeName(const ::onnx::NodeProto &node,
                                      size_t index) {
  if (node.name().empty())
    return node.op_type() + "_" + std::to_string(index);
  StringRef name = node.name();
  std::optional<std::string> path = getModulePath(node);
  if (!path)
    return name.str();
  // PyTorch's exporters name nodes `node_linear_2` or `/encoder/fc/MatMul`.
  name.consume_front("node_");
  name = name.substr(name.rfind('/') + 1);
  return path->empty() ? name.str() : *path + "/" + name.str();
}

std::string mlir::binade::describeInputs(const ::onnx::NodeProto &node) {
  auto missing = llvm::count_if(
      node.input(), [](const std::string &name) { return name.empty(); });
  std::string text = std::to_string(node.input_size());
  if (missing > 0)
    text += " of which " + std::to_string(missing) +
            (missing == 1 ? " is" : " are") + " left out";
  return text;
}

LogicalResult mlir::binade::emitError(Location loc,
                                      const ::binade::Error &error) {
  InFlightDiagnostic diagnostic = mlir::emitError(loc);
  if (!error.where.empty() && error.where != describeLocation(loc).first)
    diagnostic << error.where << ": ";
  diagnostic << error.message;
  for (const std::string &note : error.notes)
    diagnostic.attachNote() << note;
  return diagnostic;
}

Model::Model(MLIRContext *context, StringRef path)
    : context(context), path(path),
      directory(llvm::sys::path::parent_path(path)),
      fileName(llvm::sys::path::filename(path)),
      proto(std::make_shared<::onnx::ModelProto>()) {}

Model::~Model() = default;

const ::onnx::GraphProto &Model::getGraph() const { return proto->graph(); }

Location Model::getLoc() const {
  return FileLineColLoc::get(context, path, 0, 0);
}

Location Model::getLoc(const Twine &part) const {
  return getPartLoc(context, path, part);
}

Location Model::getLoc(const ::onnx::NodeProto &node, StringRef name) const {
  return getLoc("node " + quote(name) + " (" +
                ::binade::printable(node.op_type(), 60) + ")");
}

Location Model::getLoc(const ::onnx::NodeProto &node, size_t index) const {
  return getLoc(node, getNodeName(node, index));
}

std::optional<ByteRange> Model::getRawData(size_t index) const {
  return index < rawData.size() ? rawData[index] : std::nullopt;
}

LogicalResult Model::checkSize(uint64_t bytes) {
  if (bytes <= kMaxFileSize)
    return success();
  exitCode = ::binade::ExitCode::Resources;
  InFlightDiagnostic error = emitError();
  error << "file has " << bytes
        << " bytes; an ONNX file of 2 GiB or more cannot be read";
  error.attachNote() << "keep the weights as external data: "
                        "onnx.save(model, path, save_as_external_data=True)";
  return error;
}

LogicalResult Model::read() {
  auto fail = [&](const ::binade::Error &error) {
    exitCode = error.exitCode;
    return mlir::binade::emitError(getLoc(), error);
  };
  auto file = ::binade::openFile(path);
  if (!file && llvm::sys::fs::exists(path + "/saved_model.pb"))
    return fail(::binade::Error(file.error())
                    .withNote("this is a TensorFlow SavedModel; export the "
                              "model to ONNX, for a Keras model with "
                              "binade.keras.export(model, path)"));
  if (!file)
    return fail(file.error());
  if (failed(checkSize(file->getSize())))
    return failure();
  auto bytes = ::binade::readText(*file, kMaxFileSize);
  if (!bytes)
    return fail(bytes.error());
  return parse(*bytes);
}

LogicalResult Model::parse(StringRef bytes) {
  if (failed(checkSize(bytes.size())))
    return failure();
  ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  CodedInputStream input(&stream);
  input.SetTotalBytesLimit(static_cast<int>(kMaxFileSize));
  input.SetRecursionLimit(kMaxNesting);
  bool isParsed = !bytes.empty() && proto->ParseFromCodedStream(&input) &&
                  input.ConsumedEntireMessage();
  if (!isParsed || !proto->has_graph())
    return reportNotAModel(bytes, isParsed);
  if (std::string field = findUnknownField(*proto); !field.empty())
    mlir::emitWarning(getLoc()) << "has fields that ONNX " BINADE_ONNX_VERSION
                                   " does not know, the first is "
                                << field << "; they are not read";
  findRawData(bytes);
  return success();
}

/// Returns the nodes in whose subgraphs the parser stopped, outermost first.
/// They are the last nodes of their graphs in the partial result.
static SmallVector<std::string> findOpenNodes(const ::onnx::GraphProto &graph) {
  SmallVector<std::string> nodes;
  const ::onnx::GraphProto *open = &graph;
  while (open && open->node_size() > 0) {
    const ::onnx::NodeProto &node = *open->node().rbegin();
    open = nullptr;
    if (node.attribute_size() == 0)
      continue;
    const ::onnx::AttributeProto &attribute = *node.attribute().rbegin();
    if (attribute.has_g())
      open = &attribute.g();
    else if (attribute.graphs_size() > 0)
      open = &*attribute.graphs().rbegin();
    if (open)
      nodes.push_back(quote(node.name()) + " (" +
                      ::binade::printable(node.op_type(), 60) + ")");
  }
  return nodes;
}

InFlightDiagnostic Model::reportNotAModel(StringRef bytes,
                                          bool isParsed) const {
  auto head = std::as_bytes(
      std::span(bytes.data(), std::min(bytes.size(), ::binade::kMagicBytes)));
  std::string_view kind = ::binade::recognizeMagic(head);
  std::string_view advice = ::binade::magicAdvice(head);
  SmallVector<std::string> nodes = findOpenNodes(getGraph());
  InFlightDiagnostic error = emitError();
  if (nodes.size() >= kMaxGraphs - 1) {
    error << "has graphs nested deeper than " << kMaxGraphs << " levels";
    constexpr size_t kShown = 4;
    error.attachNote() << "node "
                       << llvm::join(ArrayRef(nodes).take_front(kShown),
                                     " holds node ")
                       << ", and so on";
    return error;
  }
  error << "expected an ONNX model, ";
  if (bytes.empty())
    error << "got an empty file";
  else if (!kind.empty())
    error << "got " << StringRef(kind);
  else if (isParsed)
    error << "got a file without a graph";
  else
    error << "but the bytes cannot be parsed as one (damaged, cut short, or "
             "nested deeper than "
          << kMaxNesting << " messages)";
  if (!advice.empty())
    error.attachNote() << StringRef(advice);
  return error;
}

LogicalResult Model::findOpset() {
  if (!proto->has_ir_version() || proto->ir_version() < 1)
    return emitError() << "has IR version " << proto->ir_version()
                       << ", expected a version of ONNX";
  llvm::StringMap<int64_t> sets;
  for (const ::onnx::OperatorSetIdProto &set : proto->opset_import()) {
    StringRef domain = set.domain() == "ai.onnx" ? StringRef() : set.domain();
    auto [known, isNew] = sets.try_emplace(domain, set.version());
    if (!isNew && known->second != set.version())
      return emitError() << "imports opset " << known->second << " and "
                         << set.version() << " of "
                         << (domain.empty() ? "ONNX" : quote(domain));
  }
  opset = sets.lookup("");
  // A model without ops of ONNX itself need not import their operator set.
  if (opset == 0 && !sets.empty() &&
      llvm::none_of(getGraph().node(), [](const ::onnx::NodeProto &node) {
        return isStandardDomain(node.domain());
      }))
    opset = kNewestOpset;
  if (opset == 0)
    return emitError() << "the model imports no ONNX operator set";
  if (opset < 0)
    return emitError() << "the model uses ONNX opset " << opset
                       << ", supported are " << kOldestOpset << " to "
                       << kNewestOpset;
  return success();
}

bool Model::hasKnownOpset() const {
  return opset >= kOldestOpset && opset <= kNewestOpset;
}

LogicalResult Model::checkSupported() {
  if (!getGraph().sparse_initializer().empty())
    return emitUnsupported(
               "initializer " +
               quote(getGraph().sparse_initializer(0).values().name()))
           << "sparse initializers are not supported";
  if (!proto->training_info().empty())
    return emitUnsupported() << "has training_info, which is not supported; "
                                "export the training step as one graph";
  constexpr int64_t kNewest = ::onnx::IR_VERSION;
  if (proto->ir_version() < 3 || proto->ir_version() > kNewest)
    return emitUnsupported() << "has IR version " << proto->ir_version()
                             << ", supported are 3 to " << kNewest;
  if (hasKnownOpset())
    return success();
  InFlightDiagnostic error = emitUnsupported();
  error << "the model uses ONNX opset " << opset << ", supported are "
        << kOldestOpset << " to " << kNewestOpset;
  error.attachNote() << "onnx.version_converter.convert_version(model, "
                     << kNewestOpset << ") may convert it";
  return error;
}

int Model::addInitializer(::onnx::TensorProto tensor) {
  auto &initializers = *proto->mutable_graph()->mutable_initializer();
  *initializers.Add() = std::move(tensor);
  rawData.resize(initializers.size());
  return initializers.size() - 1;
}

int Model::copyInitializer(int index, StringRef name) {
  ::onnx::TensorProto copy = getGraph().initializer(index);
  copy.set_name(name.str());
  copies.insert(name);
  int added = addInitializer(std::move(copy));
  rawData[added] = rawData[index];
  return added;
}

/// Finds the positions of the initializers' `raw_data` by traversing the wire
/// format; the parsed message does not have them.
void Model::findRawData(StringRef bytes) {
  ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  CodedInputStream input(&stream);
  auto walk = [&](int field, auto visit) {
    constexpr auto kBytes = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    uint32_t wanted = WireFormatLite::MakeTag(field, kBytes);
    while (uint32_t tag = input.ReadTag()) {
      if (tag != wanted) {
        if (!WireFormatLite::SkipField(&input, tag))
          return;
        continue;
      }
      int length;
      if (!input.ReadVarintSizeAsInt(&length))
        return;
      auto limit = input.PushLimit(length);
      visit(length);
      input.Skip(input.BytesUntilLimit());
      input.PopLimit(limit);
    }
  };
  walk(::onnx::ModelProto::kGraphFieldNumber, [&](int) {
    walk(::onnx::GraphProto::kInitializerFieldNumber, [&](int) {
      std::optional<ByteRange> &range = rawData.emplace_back();
      walk(::onnx::TensorProto::kRawDataFieldNumber, [&](int length) {
        range = ByteRange{static_cast<uint64_t>(input.CurrentPosition()),
                          static_cast<uint64_t>(length)};
      });
    });
  });
  // The message of a graph may legally be split into several pieces; then the
  // positions cannot be assigned to initializers.
  if (rawData.size() != static_cast<size_t>(getGraph().initializer_size()))
    rawData.clear();
}
