//===- Model.h - An ONNX file in memory -------------------------*- C++ -*-===//

#ifndef BINADE_ONNX_MODEL_H
#define BINADE_ONNX_MODEL_H

#include "binade/Container/ExternalFile.h"
#include "binade/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
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

/// A parsed ONNX file, with the locations at which its errors are reported.
class Model {
public:
  Model(MLIRContext *context, StringRef path);
  ~Model();

  /// Reads and parses the file. Does not check whether its content is
  /// supported.
  LogicalResult read();

  /// Parses `bytes`; fails unless they are an ONNX model.
  LogicalResult parse(StringRef bytes);

  /// The exit code for a failure of `read` or `parse`.
  int getExitCode() const { return exitCode; }

  /// Finds the version of ONNX's operator set. Fails if the model imports no
  /// version of it, or two.
  LogicalResult findOpset();

  /// Fails if the operator set or IR version is too old or too new, or if the
  /// model has sparse initializers or `training_info`.
  LogicalResult checkSupported();

  MLIRContext *getContext() const { return context; }
  const ::onnx::GraphProto &getGraph() const;
  const ::onnx::ModelProto &getProto() const { return *proto; }
  /// For callers that change the model and write it.
  ::onnx::ModelProto &getProto() { return *proto; }
  std::shared_ptr<::onnx::ModelProto> share() const { return proto; }
  int64_t getOpset() const { return opset; }
  /// Whether `getOpset` is a version whose ops Binade knows.
  bool hasKnownOpset() const;
  /// The model's directory, to which external data are relative.
  const std::string &getDirectory() const { return directory; }
  /// The name of the file, without its directory.
  StringRef getFileName() const { return fileName; }

  /// Adds an initializer and returns its index.
  int addInitializer(::onnx::TensorProto tensor);
  /// Adds the initializer `name` with the value of initializer `index` and
  /// returns its index. The two are separate tensors, although they are stored
  /// at the same place.
  int copyInitializer(int index, StringRef name);
  /// Whether `copyInitializer` added `name`.
  bool isCopy(StringRef name) const { return copies.contains(name); }
  /// Records that a node reads another value in place of initializer `name`.
  void addReplaced(StringRef name) { replaced.insert(name); }
  bool isReplaced(StringRef name) const { return replaced.contains(name); }

  /// The range of the file with the raw data of initializer `index`; nothing if
  /// the data are stored otherwise.
  std::optional<ByteRange> getRawData(size_t index) const;

  Location getLoc() const;
  /// The location of `part` of the file, such as "node 'n' (Op)".
  Location getLoc(const Twine &part) const;
  Location getLoc(const ::onnx::NodeProto &node, StringRef name) const;
  Location getLoc(const ::onnx::NodeProto &node, size_t index) const;

  InFlightDiagnostic emitError() const { return mlir::emitError(getLoc()); }
  InFlightDiagnostic emitError(const Twine &part) const {
    return mlir::emitError(getLoc(part));
  }
  /// Reports content that is valid ONNX, but that Binade does not support.
  InFlightDiagnostic emitUnsupported() const {
    return mlir::binade::emitUnsupported(getLoc());
  }
  InFlightDiagnostic emitUnsupported(const Twine &part) const {
    return mlir::binade::emitUnsupported(getLoc(part));
  }

private:
  LogicalResult checkSize(uint64_t bytes);
  /// Reports that `bytes` are not a model, and what they are instead, if that
  /// can be recognized.
  InFlightDiagnostic reportNotAModel(StringRef bytes, bool isParsed) const;
  void findRawData(StringRef bytes);

  MLIRContext *context;
  std::string path, directory, fileName;
  std::shared_ptr<::onnx::ModelProto> proto;
  int64_t opset = 0;
  int exitCode = ::binade::ExitCode::Rejected;
  std::vector<std::optional<ByteRange>> rawData;
  llvm::StringSet<> copies, replaced;
};

/// Whether ops of `domain` are those of ONNX itself.
inline bool isStandardDomain(StringRef domain) {
  return domain.empty() || domain == "ai.onnx";
}

/// Returns the node's name or, if it has none, its op type and index.
std::string getNodeName(const ::onnx::NodeProto &node, size_t index);

/// Returns a text with the number of the node's inputs, and how many of these
/// are left out.
std::string describeInputs(const ::onnx::NodeProto &node);

/// Reports an error of the Container library with its notes.
LogicalResult emitError(Location loc, const ::binade::Error &error);

/// Returns `name` in quotes, with unprintable characters escaped.
std::string quote(StringRef name);

} // namespace mlir::binade

#endif // BINADE_ONNX_MODEL_H
