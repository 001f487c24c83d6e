//===- PrecisionGraph.h - Ops with chosen formats ---------------*- C++ -*-===//

#ifndef BINADE_PRECISION_PRECISIONGRAPH_H
#define BINADE_PRECISION_PRECISIONGRAPH_H

#include "binade/Precision/ConstantChecker.h"
#include "binade/Precision/ExpectedScales.h"
#include "binade/Precision/RuleMatcher.h"

namespace mlir::binade {

/// An op of the training step whose format is chosen.
struct PrecisionNode {
  PrecisionOpInterface op;
  /// The last rule of the policy that matches the op, pinned or not; null if
  /// none does.
  const PolicyRule *rule = nullptr;
  /// For a `save`: the rule of the value's producer that sets the saved format.
  const PolicyRule *savedRule = nullptr;
  /// For a `save`: the quantized format in which the value is saved, or null.
  QuantizedAttr savedFormat;
  /// The rule's class, else the op's own.
  PrecisionClass precisionClass = PrecisionClass::Unlisted;
  /// What a contraction computes; set if a rule quantizes operands.
  LayerProduct product = LayerProduct::Forward;
  /// Whether a user wrote the decision into the module.
  bool isPinned = false;
  /// Formats that a pin or the rule fixes; null if the assigner chooses them.
  FloatType compute, accumulate, result;
  /// The format in which users read the result, if it is fixed. The saved
  /// format of a value does not fix the format in which users compute with it.
  FloatType settled;
  /// Narrow formats that the node must not have, whatever its class and shipped
  /// rules say, because they cannot represent a constant that it reads or a
  /// recorded value that it reads or writes.
  ArrayRef<UnsuitableFormat> unsuitable;
  /// Whether all narrow formats are unsuitable.
  bool fitsNowhere = false;

  /// Returns the reason if all narrow formats are unsuitable; interned, and
  /// empty otherwise.
  StringRef getEvidence() const {
    return fitsNowhere ? unsuitable.front().reason : StringRef();
  }

  /// Whether `format` can represent the constants and the recorded values.
  bool fits(FloatType format) const {
    return llvm::none_of(unsuitable, [&](const UnsuitableFormat &one) {
      return one.format == format;
    });
  }
};

/// A floating-point operand of a node whose format follows the decision.
/// Constants are not inputs, because they take any format.
struct PrecisionInput {
  Value value;
  /// The index of the value; equal for equal values.
  unsigned number;
  /// The node that writes the value in its result format; none if the format of
  /// the value is not chosen.
  std::optional<unsigned> producer;
};

/// An optimizer update, and the storage formats of its parameter and states.
struct StorageNode {
  OptimizerUpdateOp op;
  /// The rule that decided; null for a pin, or if no rule matches.
  const PolicyRule *rule = nullptr;
  /// The pin, or the settings of the rule; null if parameter and states stay
  /// f32.
  StorageAttr decision;
};

/// Whether two decisions, which may be null, store everything in the same
/// formats.
bool areEquivalent(StorageAttr lhs, StorageAttr rhs);

/// The ops of a training step whose formats are chosen, in order, and the data
/// flow between them. Built in linear time.
class PrecisionGraph {
public:
  PrecisionGraph(func::FuncOp step, const Policy &policy);

  const Policy &getPolicy() const { return policy; }
  const RuleMatcher &getMatcher() const { return matcher; }
  /// Whether a rule of the policy quantizes operands.
  bool quantizesOperands() const { return quantizes; }
  ArrayRef<PrecisionNode> getNodes() const { return nodes; }
  ArrayRef<PrecisionInput> getInputs(unsigned node) const;
  /// Returns the nodes that read `node`, in order, once per operand.
  ArrayRef<unsigned> getReaders(unsigned node) const;
  /// The number of values; `PrecisionInput::number` is less than this.
  unsigned getNumValues() const { return numValues; }

  ArrayRef<StorageNode> getStorages() const { return storages; }
  /// Returns the storage format of an argument of the step, or of its new
  /// value.
  FloatType getStoredFormat(Value value) const;

  /// Returns the node of `op`; none for other ops, and for null.
  std::optional<unsigned> find(Operation *op) const;

  /// Makes `rule` decide about a node that is not pinned. Updates the saved
  /// formats of its results.
  void setRule(unsigned node, const PolicyRule *rule);
  /// Sets whether the decision in the module counts as a pin.
  void setPin(unsigned node, bool isPinned);

  /// Returns the narrow formats that cannot represent an operand or a result of
  /// the node, also if a user decided on one of them.
  ArrayRef<UnsuitableFormat> getUnsuitable(unsigned node) const {
    auto found = unsuitable.find(node);
    return found == unsuitable.end()
               ? ArrayRef<UnsuitableFormat>()
               : ArrayRef<UnsuitableFormat>(found->second);
  }

  /// Returns what was recorded of `value`, for each narrow format of the
  /// policy.
  SmallVector<FormatEvidence, 1> getEvidence(Value value) const;

  /// Returns the expected magnitudes of the values of the step; null unless a
  /// rule of the policy scales operands.
  const ExpectedScales *getScales() const {
    return scales ? &*scales : nullptr;
  }

private:
  struct ValueNumbers;

  void addNode(PrecisionOpInterface op, ValueNumbers &numbers);
  void addStorage(OptimizerUpdateOp op);
  Attribute chooseStates(const StateFormats &formats, OptimizerUpdateOp op,
                         bool isSelected);
  void override(StorageNode &node);
  void addUnsuitable(unsigned node);
  void addReaders();
  void settle(unsigned node);
  std::optional<unsigned> findProducer(const PrecisionInput &input) const;
  void settleSavedFormat(unsigned node);
  void applyUnsuitable(unsigned node);

  const Policy &policy;
  RuleMatcher matcher;
  bool quantizes = false; ///< See quantizesOperands.
  std::vector<PrecisionNode> nodes;
  unsigned numValues = 0;
  std::vector<StorageNode> storages;
  DenseMap<Value, FloatType> stored;
  /// The inputs of node i are [firstInput[i], firstInput[i + 1]); readers are
  /// stored in the same way.
  std::vector<PrecisionInput> inputs;
  std::vector<unsigned> firstInput = {0}, readers, firstReader;
  std::optional<StepEvidence> evidence;
  std::optional<ExpectedScales> scales;
  ConstantChecker constants;
  unsigned numNarrow;
  /// Nodes that read or write a value which some narrow format cannot
  /// represent.
  DenseMap<unsigned, std::vector<UnsuitableFormat>> unsuitable;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_PRECISIONGRAPH_H
