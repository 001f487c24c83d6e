//===- Import.h - Import of ONNX files --------------------------*- C++ -*-===//

#ifndef BINADE_IMPORT_ONNX_IMPORT_H
#define BINADE_IMPORT_ONNX_IMPORT_H

#include "binade/Container/Error.h"
#include "binade/ONNX/InitializerChoice.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace mlir::binade {

struct ImportOptions : InitializerChoice {
  /// Lengths of symbolic dimensions; they override those in the file's
  /// metadata. A name that no input has is an error.
  llvm::StringMap<int64_t> dims;
  /// A loss to append: `cross_entropy(OUTPUT, INPUT[, axis=N][,
  /// ignore_index=N])` or `mse(OUTPUT, INPUT)`. INPUT is a new input (i64
  /// labels, or a tensor of the output's type) or an input of the graph with
  /// that type.
  std::string loss;
  /// The optimizer file that ONNX Runtime's training wrote for the model (see
  /// `readOptimizerModel`), or empty. Imported by `importModel`.
  std::string optimizerModel;
  /// Accept external data in files that have several hard links.
  bool allowHardLinks = false;
  /// Read all weights and fail if one is not finite. Minus infinity is allowed
  /// in constants, where it is a mask.
  bool failOnNonfinite = false;
  /// Replace decomposed composites by one op (see `recognizeComposites`).
  bool recognize = true;
};

/// The numbers and sizes of imported tensors, by role.
struct ImportReport {
  TensorGroup parameters, buffers, constants;
  /// Initializers that no output depends on; they are not imported.
  TensorGroup unused;
  int64_t nodes = 0;
  /// Symbolic dimensions of the inputs and their lengths.
  std::map<std::string, int64_t> dims;
  int exitCode = ::binade::ExitCode::Rejected; ///< Set on failure.

  void print(raw_ostream &os) const;
};

/// Imports the ONNX file at `path` as a module with `func.func @forward`.
///
/// The function's arguments are parameters, buffers, `rng` (if the graph draws
/// random numbers) and the batch; its results are updated buffers, the advanced
/// `rng`, the loss (metric `loss`) and the graph's outputs. Roles and names
/// follow Interface.h. The location of each op names its ONNX node. Weights
/// stay in their files, to which the IR refers relative to the model's
/// directory; only their position and size are checked.
///
/// Errors are diagnostics about a part of the file ("node 'n' (Op)", "input
/// 'x'"; see `describeLocation`) or about the file. One error lists all ops
/// that cannot be imported.
FailureOr<OwningOpRef<ModuleOp>> importOnnx(StringRef path,
                                            const ImportOptions &options,
                                            MLIRContext *context,
                                            ImportReport *report = nullptr);

/// The nodes of a file that `importOnnxPart` imported or left out.
struct PartialImport {
  /// Why nothing was imported; empty if something was.
  std::string everything;
  int exitCode = ::binade::ExitCode::Rejected; ///< Set on failure.
  struct Node {
    /// The name that the locations of the node's ops have.
    std::string name;
    /// Why the node was left out of `@forward`; empty if it was imported, or if
    /// no output depends on it.
    std::string reason;
    /// The ranks of the inputs; -1 if unknown.
    SmallVector<int64_t, 2> ranks = {};
    /// The input that the first output equals, as for Identity; empty for other
    /// nodes.
    std::string same = {};
    /// Whether the first output consists of elements of the first input, moved
    /// or in another shape, and whether it has all of them.
    bool isMovement = false, movesAll = false;
    /// For each input, whether it is read in f32 or as integers whatever the
    /// decision says, as are parameters and statistics of norms. Empty if the
    /// node was not imported.
    SmallVector<bool, 2> isWide = {};
    /// The number of nodes in whose subgraphs the node is.
    unsigned depth = 0;
  };
  /// All nodes of the model, each followed by those of its subgraphs.
  std::vector<Node> nodes;
  /// The model; if `hasInlined`, calls of its functions are inlined.
  std::shared_ptr<::onnx::ModelProto> model;
  bool hasInlined = false;
  /// `model` with inferred types and shapes and without data; null if inference
  /// was not needed or failed.
  std::shared_ptr<const ::onnx::ModelProto> inferred;
};

/// Imports the supported part of the file at `path`, so that formats can be
/// decided for its nodes; the result is not meant to run. Composites are not
/// recognized, except for the bias of a matmul.
///
/// A node that cannot be imported is left out: its inputs become results, and
/// its outputs become arguments if their types are known. Symbolic dimensions
/// without a length get `kAssumedLength`. A subgraph is imported once, on
/// placeholders for its inputs; its node is left out, and the node's results
/// have the types of the subgraph's outputs. Calls of the model's functions are
/// inlined.
///
/// If the file neither stores weights externally nor lists trained tensors, its
/// floating-point tensors of two or more axes are trained. If the file has a
/// loss, so are f32 inputs of two or more axes whose type equals that of
/// another output, which is then a gradient or a new value.
///
/// Returns a null module if nothing can be imported, with the reason in
/// `partial.everything`. Fails if the file is not a valid ONNX model.
FailureOr<OwningOpRef<ModuleOp>> importOnnxPart(StringRef path,
                                                const ImportOptions &options,
                                                MLIRContext *context,
                                                PartialImport &partial);

inline constexpr int64_t kAssumedLength = 2;

/// Reads the file at `path` and returns the model unchanged.
FailureOr<std::shared_ptr<::onnx::ModelProto>> readOnnx(StringRef path,
                                                        MLIRContext *context);

/// Imports a model from memory; the buffer's identifier is used as its path.
FailureOr<OwningOpRef<ModuleOp>> importOnnx(llvm::MemoryBufferRef file,
                                            const ImportOptions &options,
                                            MLIRContext *context,
                                            ImportReport *report = nullptr);

} // namespace mlir::binade

#endif // BINADE_IMPORT_ONNX_IMPORT_H
