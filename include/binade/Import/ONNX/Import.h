//===- Import.h - From an ONNX file to binade ops ---------------*- C++ -*-===//

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
  /// Values of symbolic dimensions, before those that the file names. One that
  /// the graph lacks is an error.
  llvm::StringMap<int64_t> dims;
  /// A loss to append: `cross_entropy(OUTPUT, INPUT[, axis=N][,
  /// ignore_index=N])` or `mse(OUTPUT, INPUT)`. The input is new (i64 labels,
  /// or as the output) or an input of the graph of that shape.
  std::string loss;
  /// The file of the optimizer that ONNX Runtime's training wrote beside the
  /// model (see `readOptimizerModel`); empty for none. Imported by
  /// `importModel`.
  std::string optimizerModel;
  /// Accept external data in files that have more than one name.
  bool allowHardLinks = false;
  /// Read all weights and refuse a model with one that is not finite. Minus
  /// infinities in constants are masks, and no fault.
  bool failOnNonfinite = false;
  /// Rewrite spelled-out composites to one op (see `recognizeComposites`).
  bool recognize = true;
};

/// What the model's tensors became.
struct ImportReport {
  TensorGroup parameters, buffers, constants;
  /// Initializers that no output depends on; they are not imported.
  TensorGroup unused;
  int64_t nodes = 0;
  /// Symbolic dimensions of the inputs, and the values that they have.
  std::map<std::string, int64_t> dims;
  int exitCode = ::binade::ExitCode::Rejected; ///< Of a failure.

  void print(raw_ostream &os) const;
};

/// Imports the ONNX file at `path`: a module with `func.func @forward`.
///
/// Arguments: parameters, buffers, `rng` (when the graph draws random numbers),
/// batch; results: updated buffers, advanced `rng`, the loss (metric `loss`),
/// graph outputs. Roles and names are those of Interface.h. Every op's location
/// names the ONNX node that it came from. Weights stay in their files, referred
/// to relative to the model's directory; only their place is checked.
///
/// Errors are diagnostics about a part of the file ("node 'n' (Op)", "input
/// 'x'"; see `describeLocation`) or the whole of it; all ops that cannot be
/// imported are reported at once.
FailureOr<OwningOpRef<ModuleOp>> importOnnx(StringRef path,
                                            const ImportOptions &options,
                                            MLIRContext *context,
                                            ImportReport *report = nullptr);

/// What an import of what can be imported left out.
struct PartialImport {
  /// Why nothing at all was imported; often empty.
  std::string everything;
  int exitCode = ::binade::ExitCode::Rejected; ///< Of a failure.
  struct Node {
    /// As ops from the node name it in their locations.
    std::string name;
    /// Why it is not in `@forward`; empty where it is, or where no output
    /// depends on it.
    std::string reason;
    /// Of its inputs; -1 where nothing is known.
    SmallVector<int64_t, 2> ranks = {};
    /// The input that its first output is, as of Identity; empty where it makes
    /// something.
    std::string same = {};
    /// Whether its first output has elements of its first input in another
    /// place or shape, and whether it has all of them.
    bool isMovement = false, movesAll = false;
    /// For each input, whether its type does not follow the decision: it is
    /// read in f32 or as integers, as parameters and statistics of norms are.
    /// Empty if the node was not imported.
    SmallVector<bool, 2> isWide = {};
    /// How many nodes its graph is nested in.
    unsigned depth = 0;
  };
  /// All nodes of the model, each followed by those of its subgraphs.
  std::vector<Node> nodes;
  /// The model; if `hasInlined`, calls of its functions are inlined.
  std::shared_ptr<::onnx::ModelProto> model;
  bool hasInlined = false;
  /// `model` without data but with inferred types and shapes; null where
  /// inference added none.
  std::shared_ptr<const ::onnx::ModelProto> inferred;
};

/// Imports what can be imported of the file at `path`, as its nodes spell it
/// out, for those who want to know about its ops: a bias is part of a product,
/// and nothing else is put together. A node that cannot be imported is left
/// out: what it reads is a result, and what it makes an argument where the file
/// gives it a static type. Dimensions without a value have a length of
/// `kAssumedLength`. A subgraph is imported once, as if it ran: its node is
/// left out, and the node's results have the types of the subgraph's. Calls of
/// the model's functions are inlined. A file that stores no weights externally,
/// and does not say what is trained, has its floating-point tensors of two or
/// more axes trained. So are inputs of two or more axes where the file has a
/// loss and another output of their type: a gradient, or a new value.
///
/// Null where `partial.everything` says why. An error is a file that is no
/// ONNX model.
FailureOr<OwningOpRef<ModuleOp>> importOnnxPart(StringRef path,
                                                const ImportOptions &options,
                                                MLIRContext *context,
                                                PartialImport &partial);

inline constexpr int64_t kAssumedLength = 2;

/// Reads the file at `path` without changes.
FailureOr<std::shared_ptr<::onnx::ModelProto>> readOnnx(StringRef path,
                                                        MLIRContext *context);

/// The same as the first from memory; the buffer's identifier is the path.
FailureOr<OwningOpRef<ModuleOp>> importOnnx(llvm::MemoryBufferRef file,
                                            const ImportOptions &options,
                                            MLIRContext *context,
                                            ImportReport *report = nullptr);

} // namespace mlir::binade

#endif // BINADE_IMPORT_ONNX_IMPORT_H
