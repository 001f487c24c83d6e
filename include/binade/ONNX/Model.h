//===- Model.h - An ONNX file in memory -------------------------*- C++ -*-===//

#ifndef BINADE_ONNX_MODEL_H
#define BINADE_ONNX_MODEL_H

#include "binade/Container/ExternalFile.h"
#include "binade/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBufferRef.h"

// onnx-ml.pb.h, which few files need, takes a second to compile.
namespace onnx {
class AttributeProto;
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace mlir::binade {

/// Bytes [offset, offset + size) of a file.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

/// A parsed ONNX file, and where its errors are reported.
class Model {
public:
  Model(MLIRContext *context, StringRef path);
  ~Model();

  /// Parses the file itself; does not yet ask what of it is supported.
  LogicalResult read();

  /// Parses `bytes`. Refused: what is no ONNX model.
  LogicalResult parse(StringRef bytes);

  /// Of what made these fail.
  int getExitCode() const { return exitCode; }

  /// Finds the version of ONNX's operator set. Fails where the model does not
  /// say it, or says two.
  LogicalResult findOpset();

  /// Refuses operator sets that are too old or too new, and parts of the format
  /// that hold no plain graph.
  LogicalResult checkSupported();

  MLIRContext *getContext() const { return context; }
  const ::onnx::GraphProto &getGraph() const;
  const ::onnx::ModelProto &getProto() const { return *proto; }
  /// For those who write the model again.
  ::onnx::ModelProto &getProto() { return *proto; }
  std::shared_ptr<::onnx::ModelProto> share() const { return proto; }
  int64_t getOpset() const { return opset; }
  /// Whether that is one whose ops are known.
  bool hasKnownOpset() const;
  /// The model's directory, to which external data are relative.
  const std::string &getDirectory() const { return directory; }
  /// The file's own name in that directory.
  StringRef getFileName() const { return fileName; }

  /// Where the raw bytes of initializer `index` stand in the file, if it keeps
  /// them as such.
  std::optional<ByteRange> getRawData(size_t index) const;

  Location getLoc() const;
  /// The place `part` ("node 'n' (Op)") in the file.
  Location getLoc(const Twine &part) const;
  Location getLoc(const ::onnx::NodeProto &node, StringRef name) const;
  Location getLoc(const ::onnx::NodeProto &node, size_t index) const;

  InFlightDiagnostic emitError() const { return mlir::emitError(getLoc()); }
  InFlightDiagnostic emitError(const Twine &part) const {
    return mlir::emitError(getLoc(part));
  }
  /// About what is valid and not read.
  InFlightDiagnostic emitUnsupported() const {
    return mlir::binade::emitUnsupported(getLoc());
  }
  InFlightDiagnostic emitUnsupported(const Twine &part) const {
    return mlir::binade::emitUnsupported(getLoc(part));
  }

private:
  LogicalResult checkSize(uint64_t bytes);
  /// Says what bytes that are no model are instead.
  InFlightDiagnostic reportNoModel(StringRef bytes, bool isParsed) const;
  void findRawData(StringRef bytes);

  MLIRContext *context;
  std::string path, directory, fileName;
  std::shared_ptr<::onnx::ModelProto> proto;
  int64_t opset = 0;
  int exitCode = ::binade::ExitCode::Rejected;
  std::vector<std::optional<ByteRange>> rawData;
};

/// Whether ops of `domain` are those of ONNX itself.
inline bool isStandardDomain(StringRef domain) {
  return domain.empty() || domain == "ai.onnx";
}

/// The node's name; one without a name is called after its op and position.
std::string getNodeName(const ::onnx::NodeProto &node, size_t index);

/// How many inputs the node has, and how many of them it leaves out.
std::string describeInputs(const ::onnx::NodeProto &node);

/// Reports an error of the file library, notes included.
LogicalResult emitError(Location loc, const ::binade::Error &error);

/// `name` in quotes, safe to print.
std::string quote(StringRef name);

} // namespace mlir::binade

#endif // BINADE_ONNX_MODEL_H
