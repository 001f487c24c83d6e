//===- Initializers.h - Parameters, buffers and constants -------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_INITIALIZERS_H
#define BINADE_LIB_IMPORT_ONNX_INITIALIZERS_H

#include "Dimensions.h"
#include "Graph.h"
#include "binade/Import/ONNX/Import.h"
#include "llvm/Support/GlobPattern.h"
#include <map>

namespace mlir::binade::importer {

/// The tensors that a model brings along: initializers, and inputs whose
/// initial values follow a rule.
class Initializers {
public:
  Initializers(const Model &model, const Metadata &metadata)
      : model(model), metadata(metadata) {}

  /// Decides which are trained (by storage or metadata, then by the globs of
  /// `options`), which are running statistics, and which are constants.
  /// Those that no node of `order` uses are only counted, but for those that
  /// the metadata name. With `trainsMatrices` those of two or more axes are
  /// trained wherever they are stored. With `warns` refuses metadata that name
  /// what cannot be trained, and says what users may not have meant.
  LogicalResult classify(ArrayRef<unsigned> order,
                         const llvm::StringSet<> &used,
                         const Dimensions &dimensions, TensorReader &reader,
                         const ImportOptions &options, ImportReport &report,
                         bool trainsMatrices = false, bool warns = true);

  /// Fails where one has an element that is not finite. Minus infinities of
  /// constants are masks.
  LogicalResult checkFinite(TensorReader &reader) const;

  /// Remarks on parameters that nodes of `order` look up rows of, of which one
  /// alone is 0: PyTorch's `padding_idx` leaves such a row, and the model does
  /// not say so.
  void remarkOnPadding(ArrayRef<unsigned> order, TensorReader &reader) const;

  /// A tensor that the state of a run has.
  struct Kept {
    std::string name;
    RankedTensorType type;
    std::string owner; ///< The first of those tied to it; often itself.
  };
  /// Parameters and buffers.
  FailureOr<std::vector<Kept>> getKept(TensorReader &reader);

  /// Gives each its value: parameters and buffers become arguments, the others
  /// constants.
  LogicalResult define(Graph &graph, ImportReport &report);

private:
  struct Tensor {
    StringRef name;
    RankedTensorType type;
    const ::onnx::TensorProto *proto = nullptr; ///< Null with a rule.
    std::optional<ByteRange> range;
    bool isBuffer = false;
    bool isTrained = false;
    bool isFrozen = false; ///< Kept, and so in files of the state.

    bool isTrainable() const {
      return isa<FloatType>(type.getElementType()) && !isBuffer;
    }
    /// What has no value in the model cannot be a constant: it is kept.
    bool isConstant() const {
      return !isBuffer && !isTrained && !isFrozen && proto;
    }
  };

  Location getLoc(StringRef name) const {
    return model.getLoc("initializer " + quote(name));
  }
  LogicalResult collect(const llvm::StringSet<> &used,
                        const Dimensions &dimensions, TensorReader &reader,
                        ImportReport &report);
  /// Fails where the metadata name what cannot be trained.
  LogicalResult checkTrainable() const;
  void warnOfUntrained() const;
  /// Warns of parameters that several nodes read.
  SmallVector<unsigned> findForward(ArrayRef<unsigned> order,
                                    StringRef loss) const;
  void warnOfShared(ArrayRef<unsigned> forward) const;
  /// Why `text` matches nothing that a glob may choose.
  InFlightDiagnostic refuseGlob(StringRef text, StringRef flag,
                                const llvm::GlobPattern &pattern) const;
  LogicalResult applyGlobs(ArrayRef<std::string> globs, StringRef flag,
                           function_ref<void(Tensor &)> apply);
  /// Where a tensor is stored, and whose argument it is.
  struct Place {
    TypedAttr value;
    StringRef owner;
  };
  FailureOr<Place> locate(TensorReader &reader, const Tensor &tensor);
  /// Warns where the bytes of `tensor` are in part those of another.
  void warnOfOverlap(const Tensor &tensor, ExternalAttr value);
  LogicalResult defineArguments(Graph &graph, Role role,
                                ArrayRef<const Tensor *> members,
                                ImportReport::Group &group);
  LogicalResult defineConstant(Graph &graph, const Tensor &tensor);

  const Model &model;
  const Metadata &metadata;
  std::vector<Tensor> tensors;
  /// The nodes whose running statistics initializers are.
  llvm::StringMap<std::string> statistics;
  llvm::StringSet<> unused; ///< Initializers that no node reads.
  /// The first parameter stored at a place; others at the same place are tied.
  llvm::DenseMap<Attribute, StringRef> stored;
  /// Bytes of one tensor of a file, from the key of a map on.
  struct Occupied {
    uint64_t end;
    StringRef owner;
  };
  llvm::DenseMap<StringAttr, std::map<uint64_t, Occupied>> occupied;
  llvm::StringSet<> overlapping; ///< Tensors that were warned of.
};

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_INITIALIZERS_H
