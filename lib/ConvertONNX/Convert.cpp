//===- Convert.cpp - Conversion of ONNX files to other formats ------------===//

#include "AvoidFusions.h"
#include "Boundaries.h"
#include "NarrowStored.h"
#include "PlaceCasts.h"
#include "ScaleGradients.h"
#include "Sums.h"
#include "Weights.h"
#include "binade/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/Path.h"
#include <filesystem>
#include <google/protobuf/io/coded_stream.h>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

static constexpr StringLiteral kLossName = "loss";
/// The key in the metadata of a converted file; its value is the policy's name.
static constexpr StringLiteral kConvertedKey = "binade.converted";

namespace {
/// Converts one model; the methods are in the order of the steps.
class Converter {
public:
  Converter(MLIRContext *context, const ConvertedModel &converted)
      : context(context), path(converted.path), model(*converted.model),
        inferred(converted.inferred.get()), formats(converted.formats) {}

  LogicalResult convert(const ConvertOptions &options, StringRef output,
                        ConvertReport &report);

private:
  Location getLoc() const { return FileLineColLoc::get(context, path, 0, 0); }
  LogicalResult fail(const ::binade::Error &error, ConvertReport &report);
  FailureOr<llvm::StringMap<int32_t>> findPorts(const ConvertOptions &options);
  bool describe(::onnx::GraphProto &graph, unsigned &next);
  void describe(StringRef policy);
  LogicalResult write(const StoredFormats &stored,
                      const ConvertOptions &options, const std::string &output,
                      ConvertReport &report);

  MLIRContext *context;
  std::string path;
  ::onnx::ModelProto &model;
  const ::onnx::ModelProto *inferred;
  ArrayRef<NodeFormats> formats;
  OperatorSets sets;
};
} // namespace

LogicalResult Converter::fail(const ::binade::Error &error,
                              ConvertReport &report) {
  report.exitCode = error.exitCode;
  Location loc =
      error.part.empty() ? getLoc() : getPartLoc(context, path, error.part);
  InFlightDiagnostic diagnostic = mlir::emitError(loc);
  if (!error.where.empty() && error.where != path)
    diagnostic << error.where << ": ";
  diagnostic << error.message;
  for (const std::string &note : error.notes)
    diagnostic.attachNote() << note;
  return diagnostic;
}

FailureOr<llvm::StringMap<int32_t>>
Converter::findPorts(const ConvertOptions &options) {
  llvm::StringMap<int32_t> ports;
  for (const PortType &port : options.ports) {
    auto glob = llvm::GlobPattern::create(port.glob);
    if (!glob) {
      return mlir::emitError(getLoc())
             << "--io-types " << ::binade::quote(port.glob) << ": "
             << llvm::toString(glob.takeError());
    }
    bool matches = false;
    for (const auto *list : {&model.graph().input(), &model.graph().output()})
      for (const auto &value : *list)
        if (value.type().tensor_type().elem_type() == TensorProto::FLOAT &&
            glob->match(value.name())) {
          int32_t type = ports[value.name()] = getOnnxType(port.type);
          matches = true;
          if (type != TensorProto::FLOAT && !canCast(sets, type))
            return mlir::emitError(getLoc())
                   << "--io-types " << ::binade::quote(port.glob)
                   << ": Cast of the model's operator set has no " << port.type
                   << "; convert the model to a newer one";
        }
    if (!matches)
      return mlir::emitError(getLoc())
             << "--io-types " << ::binade::quote(port.glob)
             << " matches none of the model's inputs and outputs in f32";
  }
  for (auto it = ports.begin(); it != ports.end();) {
    auto current = it++;
    if (current->second == TensorProto::FLOAT)
      ports.erase(current);
  }
  return ports;
}

/// Writes the decision about each node to the node's metadata. Returns whether
/// there is any.
bool Converter::describe(::onnx::GraphProto &graph, unsigned &next) {
  bool isChanged = false;
  for (NodeProto &node : *graph.mutable_node()) {
    unsigned index = next++;
    forEachInferredGraph(
        node, nullptr,
        [&](::onnx::GraphProto &inner, const ::onnx::GraphProto *) {
          isChanged |= describe(inner, next);
        });
    if (index >= formats.size())
      continue;
    NodeFormats decision = getNodeFormats(node, formats[index]);
    if (!decision.compute || decision.rule.empty())
      continue;
    isChanged = true;
    std::string text;
    llvm::raw_string_ostream os(text);
    os << decision.compute;
    if (decision.accumulate && decision.accumulate != decision.compute)
      os << ", sums " << decision.accumulate;
    else if (decision.compute.getWidth() < 32 && sumsInOwnType(node, sets))
      os << ", sums f32";
    if (decision.result != decision.compute)
      os << ", result " << decision.result;
    os << " <- " << decision.rule;
    auto &entry = *node.add_metadata_props();
    entry.set_key(kPrecisionKey.str());
    entry.set_value(text);
  }
  return isChanged;
}

/// Writes the name of the policy to the metadata of the file, if a node has a
/// decision.
void Converter::describe(StringRef policy) {
  unsigned next = 0;
  if (!describe(*model.mutable_graph(), next))
    return;
  auto &properties = *model.mutable_metadata_props();
  auto known = llvm::find_if(properties, [](const auto &entry) {
    return entry.key() == kConvertedKey;
  });
  auto &entry = known == properties.end() ? *properties.Add() : *known;
  entry.set_key(kConvertedKey.str());
  entry.set_value(policy.str());
}

LogicalResult Converter::write(const StoredFormats &stored,
                               const ConvertOptions &options,
                               const std::string &output,
                               ConvertReport &report) {
  std::error_code ignored;
  if (std::filesystem::equivalent(path, output, ignored))
    return mlir::emitError(getLoc()) << "would be overwritten by its own "
                                        "conversion; choose another output";
  WeightWriter weights(llvm::sys::path::parent_path(path).str(), output,
                       options.allowHardLinks);
  if (auto written = weights.write(model, stored); !written)
    return fail(written.error(), report);
  std::string bytes;
  if (!model.SerializeToString(&bytes))
    return mlir::emitError(getLoc(), "is too large for an ONNX file");
  auto file = ::binade::AtomicFile::create(output);
  if (!file)
    return fail(file.error(), report);
  // Write the external data first, so that a model never refers to missing
  // data.
  auto done = file->write(0, std::as_bytes(std::span(bytes)));
  if (done)
    done = weights.commit();
  if (done)
    done = file->commit();
  if (!done)
    return fail(done.error(), report);
  report.data = weights.getData();
  report.tensors = stored.size();
  report.nodes = model.graph().node_size();
  return success();
}

LogicalResult Converter::convert(const ConvertOptions &options,
                                 StringRef output, ConvertReport &report) {
  for (const auto &set : model.opset_import()) {
    std::string domain = set.domain() == "ai.onnx" ? "" : set.domain();
    sets[domain] = std::max<int64_t>(sets[domain], set.version());
  }
  auto ports = findPorts(options);
  if (failed(ports))
    return failure();
  UniqueNames names(model);
  llvm::StringSet<> outside = findReadOutside(model),
                    inside = findReadInside(model.graph());
  describe(options.policy);
  PlannedGraph planned =
      planNodes(*model.mutable_graph(), inferred ? &inferred->graph() : nullptr,
                formats, sets, report.limits);
  if (options.scale) {
    llvm::StringSet<> named = outside;
    for (StringRef name : inside.keys())
      named.insert(name);
    scaleGradients(planned, names, named, *options.scale, report);
  }
  if (options.scale && options.scale->isDynamic && !report.scaled) {
    StringRef loss = options.lossOutput.empty() ? StringRef(kLossName)
                                                : StringRef(options.lossOutput);
    return mlir::emitError(getLoc())
           << "has no gradients in f16 to scale: output "
           << ::binade::quote(loss.str())
           << " depends on all matmuls and convolutions in f16";
  }
  narrowStoredMoves(planned, outside);
  chooseBoundaries(planned, outside, sets);
  StoredFormats stored;
  placeCasts({names, *ports, outside}, std::move(planned), stored, report);
  if (report.narrow > 0)
    avoidFusions(*model.mutable_graph(), sets);
  if (report.narrow > 0 && hasFp8Matmul(model.graph()))
    report.notes.push_back(
        "onnxruntime rejects matmuls of FP8 operands in its default session; "
        "set its session option session.disable_quant_qdq to 1");
  return write(stored, options, output.str(), report);
}

llvm::BitVector mlir::binade::findBackwardNodes(const ::onnx::ModelProto &model,
                                                StringRef lossOutput) {
  return convert::findBackward(
      model.graph(), lossOutput.empty() ? StringRef(kLossName) : lossOutput);
}

LogicalResult mlir::binade::convertOnnx(const ConvertedModel &model,
                                        const ConvertOptions &options,
                                        StringRef output, MLIRContext *context,
                                        ConvertReport &report) {
  context->loadDialect<BinadeDialect>();
  return Converter(context, model).convert(options, output, report);
}
