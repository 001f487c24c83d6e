//===- Assigner.h - how formats are chosen ----------------------*- C++ -*-===//

#ifndef BINADE_PRECISION_ASSIGNER_H
#define BINADE_PRECISION_ASSIGNER_H

#include "binade/Precision/PrecisionGraph.h"
#include <memory>

namespace mlir::binade {

/// What an assigner says about one node.
struct Choice {
  /// One of the policy's formats.
  FloatType format;
  /// Why, where the node's class alone does not say: "reads f32 from". A
  /// literal.
  StringRef reason;
  /// The value that `reason` speaks of, if it speaks of one.
  Value from;
};

/// Chooses a format for each node of a graph: one of the policy's, whatever
/// pins and rules settle. The same for the same graph, whatever its names.
class Assigner {
public:
  virtual ~Assigner() = default;

  /// One choice per node.
  virtual std::vector<Choice> assign(const PrecisionGraph &graph) const = 0;
};

/// PyTorch's operand rule: `infer` and `clear` ops are narrow where all that
/// they read is.
std::unique_ptr<Assigner> createOperandRule();

/// The painting of TensorFlow's Grappler (auto_mixed_precision.cc): `deny`
/// spreads forward, `infer` and `clear` ops are narrow between `allow` ops, and
/// `clear` ops beside narrow ones. The order of the ops does not matter.
std::unique_ptr<Assigner> createPainting();

/// A minimum cut by the costs of the policy's target: `allow`, `infer` and
/// `clear` ops have whichever format makes the step cheapest, the time of casts
/// included. A format that is not faster anywhere is not chosen.
std::unique_ptr<Assigner> createCut();

/// The one that `policy` asks for.
std::unique_ptr<Assigner> createAssigner(const Policy &policy);

/// The formats of a decision. `accumulate` is null for ops that sum nothing,
/// `clamp` where infinities stay.
struct Formats {
  FloatType compute, accumulate, result;
  /// As in `#binade.precision`; null where no operand is quantized.
  ArrayAttr operands;
  ClampAttr clamp;
  bool operator==(const Formats &) const = default;
};

/// The formats that `choice` gives `node`: those settled by the policy go
/// before the chosen one.
Formats getFormats(const PrecisionGraph &graph, unsigned node,
                   const Choice &choice);
Formats getFormats(PrecisionAttr decision);

/// Whether a rule has the operands of `node`, a product, quantized and the
/// `decision` does not: it computes wide.
bool lacksQuantizedOperands(const PrecisionNode &node, PrecisionAttr decision);

/// Makes decisions of choices. A step has few that differ.
class DecisionBuilder {
public:
  explicit DecisionBuilder(const PrecisionGraph &graph) : graph(graph) {}

  /// The decision that `choice` makes of `node`. Emits an error and gives null
  /// for formats that do not fit.
  PrecisionAttr build(unsigned node, const Choice &choice);

private:
  const PrecisionGraph &graph;
  /// By rule or evidence, class, the three formats, and those of operands.
  DenseMap<std::tuple<const void *, unsigned, Type, Type, Type, Attribute>,
           PrecisionAttr>
      known;
};

/// An op with operands or results that a narrow format cannot represent, and
/// the reason. It computes in f32, or in the narrow format if a user decided
/// so.
struct HeldOp {
  Operation *op;
  StringRef reason;
  bool isNarrow;
};

/// Decides the formats of every op of the module's `@step`, as the pass does,
/// by a policy that is loaded already. `held` gets the ops that their class or
/// rule would allow to be narrow.
LogicalResult assignPrecision(ModuleOp module, const Policy &policy,
                              std::vector<HeldOp> *held = nullptr);

} // namespace mlir::binade

#endif // BINADE_PRECISION_ASSIGNER_H
