//===- Explain.h - why each op has its format -------------------*- C++ -*-===//

#ifndef BINADE_PRECISION_EXPLAIN_H
#define BINADE_PRECISION_EXPLAIN_H

#include "binade/IR/Fallback.h"
#include "binade/Precision/Assigner.h"

namespace mlir::binade {

/// A value that is read in another format than it is made in. One cast serves
/// all readers of that format.
struct CastReport {
  Value value;
  FloatType from, to;
  std::vector<Operation *> readers;

  /// Bytes that the cast reads and writes when it is a kernel of its own.
  int64_t getBytes() const;
};

/// A change of the policy, or of the module, and what it does to a step.
struct Flip {
  /// The line to add to the policy's rules: "{ match: { op: ... }, class: deny
  /// }"; empty where a pin has to go from the module.
  std::string line;
  /// Nodes whose formats change, in order.
  std::vector<unsigned> flipped;
};

/// Formats, casts and bytes of a step under its policy.
struct StepCost {
  struct Count {
    int64_t ops = 0;       ///< That compute in the format.
    int64_t casts = 0;     ///< That lead to it.
    int64_t castBytes = 0; ///< Read and written by these.
    int64_t bytes = 0;     ///< Of the results of the ops.
  };
  std::map<std::pair<Phase, std::string>, Count> counts;
  Count total;
  /// Ops that compute in a format narrower than the wide one.
  int64_t narrowOps = 0;
};

/// A training step, a policy, and all that follows from them. Changes nothing.
class Explanation {
public:
  /// Both outlive the explanation. Emits errors of decisions that do not fit.
  static FailureOr<Explanation> create(func::FuncOp step, const Policy &policy);

  const PrecisionGraph &getGraph() const { return graph; }
  PrecisionAttr getDecision(unsigned node) const { return decisions[node]; }
  const Choice &getChoice(unsigned node) const { return choices[node]; }
  /// What the choice followed, in words; empty where rule or class say all.
  std::string getReason(unsigned node) const;

  /// The element format that `value` will have.
  FloatType getFormat(Value value) const;

  /// The casts that `op` reads or whose value it makes.
  std::vector<const CastReport *> getCasts(Operation *op) const;

  /// Sets the fallbacks of ops, if the caller knows the plan.
  void setFallbacks(DenseMap<Operation *, Fallback> found) {
    fallbacks = std::move(found);
  }
  /// The fallback of `op`; null if it has none, or the plan is not known.
  const Fallback *getFallback(Operation *op) const {
    auto it = fallbacks.find(op);
    return it == fallbacks.end() ? nullptr : &it->second;
  }

  StepCost getCost() const;

  /// The smallest change of those tried that gives `node` another format: a
  /// rule about the op itself, or about the op that it followed. None where no
  /// class changes anything. Linear in the step.
  std::optional<Flip> findFlip(unsigned node);

private:
  Explanation(func::FuncOp step, const Policy &policy)
      : step(step), graph(step, policy), assigner(createAssigner(policy)) {}

  void findCasts();
  std::vector<unsigned> getNamesakes(StringRef kind, StringRef name,
                                     Phase phase) const;
  Flip tryRule(unsigned about, FloatType format);
  Flip tryWithoutPin(unsigned node);
  std::vector<unsigned> compare() const;

  func::FuncOp step;
  PrecisionGraph graph;
  std::unique_ptr<Assigner> assigner;
  std::vector<Choice> choices;
  std::vector<PrecisionAttr> decisions;
  /// Formats of values that the decisions give them.
  DenseMap<Value, FloatType> formats;
  std::vector<CastReport> casts;
  DenseMap<Operation *, SmallVector<unsigned, 2>> castsOfOps;
  DenseMap<Operation *, Fallback> fallbacks;
  /// Nodes by op, phase and name, which is what a rule of a flip says.
  std::map<std::tuple<StringRef, Phase, StringRef>, std::vector<unsigned>>
      namesakes;
};

/// What a rule costs: the step with all rules against the step without this
/// one.
struct RuleCost {
  const PolicyRule *rule;
  /// Ops, updates among them, whose formats are others without the rule.
  int64_t changed = 0;
  /// With the rule minus without it.
  int64_t narrowOps = 0, casts = 0, castBytes = 0, bytes = 0;
};

/// One entry per rule. Linear in the step for each.
FailureOr<std::vector<RuleCost>> getRuleCosts(func::FuncOp step,
                                              const Explanation &explanation);

} // namespace mlir::binade

#endif // BINADE_PRECISION_EXPLAIN_H
