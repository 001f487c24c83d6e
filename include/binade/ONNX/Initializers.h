//===- Initializers.h - Parameters, buffers and constants -------*- C++ -*-===//

#ifndef BINADE_ONNX_INITIALIZERS_H
#define BINADE_ONNX_INITIALIZERS_H

#include "binade/ONNX/Dimensions.h"
#include "binade/ONNX/InitializerChoice.h"
#include "binade/ONNX/Metadata.h"
#include "binade/ONNX/Tensors.h"
#include "llvm/Support/GlobPattern.h"
#include <map>

namespace mlir::binade {

/// The tensors that a model stores or gives a rule for: initializers, and
/// inputs whose initial values follow a rule.
class Initializers {
public:
  struct Tensor {
    StringRef name;
    RankedTensorType type;
    const ::onnx::TensorProto *proto = nullptr; ///< Null with a rule.
    std::optional<ByteRange> range;
    bool isBuffer = false;
    bool isTrained = false;
    bool isFrozen = false; ///< Not trained, but part of the state of a run.

    bool isTrainable() const {
      return isa<FloatType>(type.getElementType()) && !isBuffer;
    }
    /// A tensor without a value in the model cannot be a constant.
    bool isConstant() const {
      return !isBuffer && !isTrained && !isFrozen && proto;
    }
  };

  Initializers(const Model &model, const Metadata &metadata)
      : model(model), metadata(metadata) {}

  /// Decides which are trained (by storage or metadata, then by `choice`),
  /// which are running statistics, and which are constants. Initializers that
  /// no node of `order` uses are added to `unused` only, except those that the
  /// metadata name. With `trainsMatrices` those of two or more axes are trained
  /// wherever they are stored. With `warns` refuses metadata that name what
  /// cannot be trained, and warns of choices that users may not have intended.
  LogicalResult classify(ArrayRef<unsigned> order,
                         const llvm::StringSet<> &used,
                         const Dimensions &dimensions, TensorReader &reader,
                         const InitializerChoice &choice, TensorGroup &unused,
                         bool trainsMatrices = false, bool warns = true);

  ArrayRef<Tensor> getTensors() const { return tensors; }

  Location getLoc(StringRef name) const {
    return model.getLoc("initializer " + quote(name));
  }

  /// Fails where one has an element that is not finite. Minus infinities of
  /// constants are masks.
  LogicalResult checkFinite(TensorReader &reader) const;

  /// Where a tensor is stored, and the first tensor stored at that place: the
  /// tensors at one place are tied.
  struct Place {
    TypedAttr value;
    StringRef owner;
  };
  FailureOr<Place> locate(TensorReader &reader, const Tensor &tensor);

  /// A tensor that is part of the state of a run.
  struct StateTensor {
    std::string name;
    RankedTensorType type;
    std::string owner; ///< The first of those tied to it; often itself.
  };
  /// Returns the parameters and buffers.
  FailureOr<std::vector<StateTensor>> getStateTensors(TensorReader &reader);

private:
  LogicalResult collect(const llvm::StringSet<> &used,
                        const Dimensions &dimensions, TensorReader &reader,
                        TensorGroup &unused);
  /// Fails where the metadata name what cannot be trained.
  LogicalResult checkTrainable() const;
  void warnOfUntrained() const;
  SmallVector<unsigned> findForward(ArrayRef<unsigned> order,
                                    StringRef loss) const;
  /// Warns of parameters that several nodes read.
  void warnOfShared(ArrayRef<unsigned> forward) const;
  /// Reports that `text` matches nothing that a glob may choose.
  InFlightDiagnostic refuseGlob(StringRef text, StringRef flag,
                                const llvm::GlobPattern &pattern) const;
  LogicalResult applyGlobs(ArrayRef<std::string> globs, StringRef flag,
                           function_ref<void(Tensor &)> apply);
  /// Warns where the bytes of `tensor` are in part those of another.
  void warnOfOverlap(const Tensor &tensor, ExternalAttr value);

  const Model &model;
  const Metadata &metadata;
  std::vector<Tensor> tensors;
  /// The nodes whose running statistics initializers are.
  llvm::StringMap<std::string> statistics;
  llvm::StringSet<> unread; ///< Initializers that no node reads.
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

} // namespace mlir::binade

#endif // BINADE_ONNX_INITIALIZERS_H
