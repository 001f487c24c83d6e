//===- PrecisionGraph.h - what an assigner decides about --------*- C++ -*-===//

#ifndef BINADE_PRECISION_PRECISIONGRAPH_H
#define BINADE_PRECISION_PRECISIONGRAPH_H

#include "binade/Precision/ConstantChecker.h"
#include "binade/Precision/RuleMatcher.h"

namespace mlir::binade {

/// An op of the training step whose format is chosen.
struct PrecisionNode {
  PrecisionOpInterface op;
  /// What the policy says about it, pinned or not; null where only its class
  /// does.
  const PolicyRule *rule = nullptr;
  /// Of a saved value: the rule about its producer that says how it waits.
  const PolicyRule *savedRule = nullptr;
  /// Of a saved value: the format with scales in which it waits; or null.
  QuantizedAttr waits;
  /// The rule's class, else the op's own.
  PrecisionClass precisionClass = PrecisionClass::Unlisted;
  /// A user wrote the decision into the module.
  bool isPinned = false;
  /// Formats that a pin or the rule settles; null where they are chosen.
  FloatType compute, accumulate, result;
  /// The format in which readers find what it makes, where that is settled. In
  /// which format a saved value waits does not say how it is computed with.
  FloatType settled;
  /// Narrow formats that it may not have, whatever class and shipped rules say:
  /// a constant that it reads, or a recorded value that it reads or makes, does
  /// not fit.
  ArrayRef<UnsuitableFormat> unsuitable;
  /// Whether none is left.
  bool fitsNowhere = false;

  /// Why it is wide, in words, if none is left; interned, and empty otherwise.
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
/// Constants have none: they take any format.
struct PrecisionInput {
  Value value;
  /// Counts the values that nodes make or read: equal for one value alone.
  unsigned number;
  /// The node that makes it in its result format; none where its format is not
  /// chosen.
  std::optional<unsigned> producer;
};

/// The update of a parameter, and how that is kept.
struct StorageNode {
  OptimizerUpdateOp op;
  /// What decided, unless it was a pin; null where nothing did.
  const PolicyRule *rule = nullptr;
  /// The pin, or what the rule says; null where parameter and states stay f32.
  StorageAttr decision;
};

/// Whether two decisions, which may be null, keep everything alike.
bool areAlike(StorageAttr lhs, StorageAttr rhs);

/// The ops of a training step whose formats are chosen, in order, and how they
/// read one another. Built in linear time.
class PrecisionGraph {
public:
  PrecisionGraph(func::FuncOp step, const Policy &policy);

  const Policy &getPolicy() const { return policy; }
  const RuleMatcher &getMatcher() const { return matcher; }
  ArrayRef<PrecisionNode> getNodes() const { return nodes; }
  ArrayRef<PrecisionInput> getInputs(unsigned node) const;
  /// Nodes that read `node`, in order, once for each operand.
  ArrayRef<unsigned> getReaders(unsigned node) const;
  /// Numbers of inputs are below it.
  unsigned getNumValues() const { return numValues; }

  ArrayRef<StorageNode> getStorages() const { return storages; }
  /// The format in which an argument of the step, or what replaces it, is kept.
  FloatType getStoredFormat(Value value) const;

  /// The node of `op`; none for other ops, and for null.
  std::optional<unsigned> find(Operation *op) const;

  /// Lets `rule` decide about a node that is not pinned. Formats in which its
  /// results wait follow.
  void setRule(unsigned node, const PolicyRule *rule);
  /// Lets the decision of a module that a user wrote hold, or not.
  void setPin(unsigned node, bool isPinned);

  /// The narrow formats that cannot represent an operand or a result of the
  /// node, even if a user decided on one of them.
  ArrayRef<UnsuitableFormat> getUnsuitable(unsigned node) const {
    auto found = unsuitable.find(node);
    return found == unsuitable.end()
               ? ArrayRef<UnsuitableFormat>()
               : ArrayRef<UnsuitableFormat>(found->second);
  }

  /// What was recorded of `value`, for each narrow format of the policy.
  SmallVector<FormatEvidence, 1> getEvidence(Value value) const;

private:
  struct ValueNumbers;

  void addNode(PrecisionOpInterface op, ValueNumbers &numbers);
  void addStorage(OptimizerUpdateOp op);
  Attribute chooseStates(const StateFormats &formats, OptimizerUpdateOp op,
                         bool isMeant);
  void override(StorageNode &node);
  void addUnsuitable(unsigned node);
  void addReaders();
  void settle(unsigned node);
  std::optional<unsigned> findMaker(const PrecisionInput &input) const;
  void settleWaiting(unsigned node);
  void applyUnsuitable(unsigned node);

  const Policy &policy;
  RuleMatcher matcher;
  std::vector<PrecisionNode> nodes;
  unsigned numValues = 0;
  std::vector<StorageNode> storages;
  DenseMap<Value, FloatType> stored;
  /// Inputs of node i are [firstInput[i], firstInput[i + 1]); so with readers.
  std::vector<PrecisionInput> inputs;
  std::vector<unsigned> firstInput = {0}, readers, firstReader;
  std::optional<StepEvidence> evidence;
  ConstantChecker constants;
  unsigned numNarrow;
  /// Of nodes that read or make a value which does not fit somewhere.
  DenseMap<unsigned, std::vector<UnsuitableFormat>> unsuitable;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_PRECISIONGRAPH_H
