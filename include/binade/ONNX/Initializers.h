//===- Initializers.h - Parameters, buffers and constants -------*- C++ -*-===//

#ifndef BINADE_ONNX_INITIALIZERS_H
#define BINADE_ONNX_INITIALIZERS_H

#include "binade/ONNX/Dimensions.h"
#include "binade/ONNX/InitializerChoice.h"
#include "binade/ONNX/Metadata.h"
#include "binade/ONNX/Producer.h"
#include "binade/ONNX/Tensors.h"
#include "llvm/Support/GlobPattern.h"
#include <map>

namespace mlir::binade {

/// The tensors of a model that have initial values: initializers, and inputs
/// for which the metadata have a rule (`binade.init`).
class Initializers {
public:
  struct Tensor {
    StringRef name;
    RankedTensorType type;
    /// Null if a rule gives the values.
    const ::onnx::TensorProto *proto = nullptr;
    std::optional<ByteRange> range;
    bool isBuffer = false;
    bool isTrained = false;
    bool isFrozen = false;  ///< Not trained, but part of the state of a run.
    bool isSetting = false; ///< Read as an attribute, such as Dropout's ratio.
    bool isNotParameter = false; ///< PyTorch's exporter does not list it.

    bool isTrainable() const {
      return isa<FloatType>(type.getElementType()) && !isBuffer && !isSetting &&
             !isNotParameter;
    }
    /// A tensor without a value in the model cannot be a constant.
    bool isConstant() const {
      return !isBuffer && !isTrained && !isFrozen && proto;
    }
  };

  Initializers(const Model &model, const Metadata &metadata);

  /// Classifies the tensors as trained, frozen, running statistics or
  /// constants: by the metadata or, without them, by `isTrainedByDefault`; then
  /// by `choice`. Initializers that no node of `order` uses are
  /// only counted in `unused`, unless the metadata name them. `trainsMatrices`
  /// trains all tensors of two or more axes, wherever they are stored. With
  /// `warns`, fails if the metadata name a tensor that cannot be trained, and
  /// warns of choices that users may not have intended.
  LogicalResult classify(ArrayRef<unsigned> order,
                         const llvm::StringSet<> &used,
                         const Dimensions &dimensions, TensorReader &reader,
                         const InitializerChoice &choice, TensorGroup &unused,
                         bool trainsMatrices = false, bool warns = true);

  ArrayRef<Tensor> getTensors() const { return tensors; }

  Location getLoc(StringRef name) const {
    return model.getLoc("initializer " + quote(name));
  }

  /// Fails if an element of a tensor is not finite. Minus infinity is allowed
  /// in constants, where it is a mask.
  LogicalResult checkFinite(TensorReader &reader) const;

  /// Where a tensor is stored. Tensors at the same place are tied; `owner` is
  /// the first of them.
  struct Place {
    TypedAttr value;
    StringRef owner;
  };
  FailureOr<Place> locate(TensorReader &reader, const Tensor &tensor);

  /// A tensor that is part of the state of a run.
  struct StateTensor {
    std::string name;
    RankedTensorType type;
    /// The first tensor of those tied to it; itself if it is not tied.
    std::string owner;
  };
  /// Returns the parameters and buffers.
  FailureOr<std::vector<StateTensor>> getStateTensors(TensorReader &reader);

private:
  LogicalResult collect(const llvm::StringSet<> &used,
                        const Dimensions &dimensions, TensorReader &reader,
                        TensorGroup &unused);
  /// Finds running statistics, weights and settings by the nodes of `order`.
  void findUses(ArrayRef<unsigned> order);
  void findUsesInBodies(const ::onnx::NodeProto &loop);
  /// Whether a tensor is trained if the metadata do not list what is. PyTorch's
  /// TorchScript exporter stores everything in the file: its initializers are
  /// parameters and buffers, and tensors that it computed from them. In files
  /// of tf2onnx and jax2onnx, the ops that read a tensor show what it is.
  bool isTrainedByDefault(const ::onnx::TensorProto &proto) const;
  bool isVectorOperand(const ::onnx::TensorProto &proto) const;
  /// Fails if the metadata name a tensor that cannot be trained.
  LogicalResult checkTrainable() const;
  LogicalResult applyChoice(const InitializerChoice &choice);
  /// Lists the trained tensors if the exporter does not say what they are.
  void warnOfAssumed() const;
  void warnOfUntrained() const;
  SmallVector<unsigned> findForward(ArrayRef<unsigned> order,
                                    StringRef loss) const;
  /// Warns of parameters that several nodes read.
  void warnOfShared(ArrayRef<unsigned> forward) const;
  /// Reports that the glob `text` of option `flag` matches no tensor that can
  /// be trained, with the reason or a similar name.
  InFlightDiagnostic refuseGlob(StringRef text, StringRef flag,
                                const llvm::GlobPattern &pattern) const;
  LogicalResult applyGlobs(ArrayRef<std::string> globs, StringRef flag,
                           function_ref<void(Tensor &)> apply);
  /// Warns if the bytes of `tensor` overlap those of another tensor.
  void warnOfOverlap(const Tensor &tensor, ExternalAttr value);

  const Model &model;
  const Metadata &metadata;
  /// The exporter, if it does not say which tensors are parameters.
  Producer producer;
  std::vector<Tensor> tensors;
  /// For each running statistic, the name of its BatchNormalization node.
  llvm::StringMap<std::string> statistics;
  llvm::StringSet<> unread;   ///< Initializers that no node reads.
  llvm::StringSet<> weights;  ///< Read as the weight or bias of a layer.
  llvm::StringSet<> tables;   ///< Read as the table of an embedding.
  llvm::StringSet<> operands; ///< Added or multiplied.
  llvm::StringSet<> settings; ///< Read as an attribute.
  /// The first parameter stored at a place; others at the same place are tied.
  llvm::DenseMap<Attribute, StringRef> stored;
  /// The range of a tensor in a file; the key of the map is where it begins.
  struct Occupied {
    uint64_t end;
    StringRef owner;
  };
  llvm::DenseMap<StringAttr, std::map<uint64_t, Occupied>> occupied;
  llvm::StringSet<> overlapping; ///< Tensors that a warning was issued for.
};

} // namespace mlir::binade

#endif // BINADE_ONNX_INITIALIZERS_H
