//===- Assigner.h - Format assignment algorithms ----------------*- C++ -*-===//

#ifndef BINADE_PRECISION_ASSIGNER_H
#define BINADE_PRECISION_ASSIGNER_H

#include "binade/Precision/PrecisionGraph.h"
#include <memory>

namespace mlir::binade {

/// The format that an assigner chose for a node, and why.
struct Choice {
  /// One of the formats of `getFormatChoices(policy)`.
  FloatType format;
  /// Why the format was chosen, if the node's class alone does not explain it:
  /// "reads a wide value from". A string literal.
  StringRef reason;
  /// The value that follows `reason` in messages; null if there is none.
  Value from;
  /// Whether a contraction that computes in the format quantizes its operands,
  /// if a rule asks for that.
  bool quantizes = true;
};

/// Chooses one of the policy's formats for each node of a graph, also for nodes
/// whose formats a pin or a rule fixes (`getFormats` ignores the choice there).
/// The result depends only on the graph, not on names.
class Assigner {
public:
  virtual ~Assigner() = default;

  /// Returns one choice per node, in the order of the nodes.
  virtual std::vector<Choice> assign(const PrecisionGraph &graph) const = 0;
};

/// Creates the assigner for PyTorch's operand rule: an `infer` or `clear` op is
/// narrow if all floating-point values that it reads are narrow.
std::unique_ptr<Assigner> createOperandRule();

/// Creates the assigner for the painting of TensorFlow's Grappler
/// (auto_mixed_precision.cc): `deny` propagates forward, `infer` and `clear`
/// ops are narrow on paths between `allow` ops, and `clear` ops also next to
/// narrow ops. The result does not depend on the order of the ops.
std::unique_ptr<Assigner> createPainting();

/// Creates the assigner that minimizes the run time of the step by a minimum
/// cut, with the costs of the policy's target. It may choose any format for
/// `allow`, `infer` and `clear` ops, and counts the time of casts. It never
/// chooses a format that is not faster than the wide one for some op. If the
/// costs have rates of quantized formats, it also chooses which contractions
/// quantize their operands, of those for which a rule asks for it.
std::unique_ptr<Assigner> createCut();

/// Creates the assigner that `policy` asks for.
std::unique_ptr<Assigner> createAssigner(const Policy &policy);

/// The formats of a decision. `accumulate` is null for ops that are not
/// contractions, `clamp` is null if results that overflow may become infinite.
struct Formats {
  FloatType compute, accumulate, result;
  /// One entry per operand, as in `#binade.precision`; null if no operand is
  /// quantized, and no bias rounded.
  ArrayAttr operands;
  /// The transform of the quantized operands; null for none.
  TransformAttr transform;
  /// How the products of operands in FP8 are added; null for sums in
  /// `accumulate`.
  AccumulationAttr accumulation;
  ClampAttr clamp;
  bool operator==(const Formats &) const = default;
};

/// Returns the formats of `node`: those that a pin or a rule fixes, else those
/// that follow from `choice`.
Formats getFormats(const PrecisionGraph &graph, unsigned node,
                   const Choice &choice);
Formats getFormats(PrecisionAttr decision);

/// Returns the format to which a rule asks to quantize an operand of `node`;
/// null without such a rule.
QuantizedAttr getQuantizedFormat(const PrecisionNode &node, OpOperand &operand);

/// Whether a rule asks for quantized operands of `node`, a contraction, but
/// `decision` does not quantize them, because the node computes in a wide
/// format, or because an assigner found that slower.
bool lacksQuantizedOperands(const PrecisionNode &node, PrecisionAttr decision);

/// Returns why `decision` does not transform the quantized operands of `node`,
/// although a rule requests it: "sums over 24 elements ..."; empty if it does,
/// or if no rule requests it. Operands whose formats need the transform are not
/// quantized without it.
std::string explainMissingTransform(const PrecisionNode &node,
                                    PrecisionAttr decision);

/// Returns why `decision` does not add the products of `node` as the
/// accumulator that a rule requests: "has a scale for ..."; empty if it does,
/// if its operands are not quantized, or if no rule requests one.
std::string explainMissingAccumulation(const PrecisionNode &node,
                                       PrecisionAttr decision);

/// Builds `#binade.precision` attributes from choices. Caches them, because a
/// step has few distinct ones.
class DecisionBuilder {
public:
  explicit DecisionBuilder(const PrecisionGraph &graph) : graph(graph) {}

  /// Returns the decision for `node`. Emits an error and returns null if the
  /// formats do not fit together.
  PrecisionAttr build(unsigned node, const Choice &choice);

private:
  const PrecisionGraph &graph;
  /// The key: rule or evidence, class, compute, accumulate and result format,
  /// operand formats, and transform.
  DenseMap<std::tuple<const void *, unsigned, Type, Type, Type, Attribute,
                      Attribute>,
           PrecisionAttr>
      known;
};

/// An op with an operand or result that a narrow format cannot represent, and
/// the reason. It computes in f32, or in the narrow format if a user decided
/// so.
struct UnsuitableOp {
  Operation *op;
  StringRef reason;
  bool isNarrow;
};

/// Decides the formats of every op of the module's `@step` by a loaded policy,
/// as `binade-assign-precision` does. If `held` is not null, appends the ops
/// that would be narrow by class or rule but have values that a narrow format
/// cannot represent.
LogicalResult assignPrecision(ModuleOp module, const Policy &policy,
                              std::vector<UnsuitableOp> *held = nullptr);

} // namespace mlir::binade

#endif // BINADE_PRECISION_ASSIGNER_H
