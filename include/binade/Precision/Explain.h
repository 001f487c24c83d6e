//===- Explain.h - Explanations of precision decisions ----------*- C++ -*-===//

#ifndef BINADE_PRECISION_EXPLAIN_H
#define BINADE_PRECISION_EXPLAIN_H

#include "binade/IR/Fallback.h"
#include "binade/Precision/Assigner.h"

namespace mlir::binade {

/// A value that is read in another format than its producer writes. One cast
/// serves all readers of that format.
struct CastReport {
  Value value;
  FloatType from, to;
  std::vector<Operation *> readers;

  /// Returns the bytes that the cast reads and writes if it is a kernel of its
  /// own.
  int64_t getBytes() const;
};

/// A change of the policy or of the module, and the ops whose formats it
/// changes.
struct Flip {
  /// The line to add to the policy's rules: "{ match: { op: ... }, class: deny
  /// }"; empty if a pin has to be removed from the module.
  std::string line;
  /// The nodes whose formats change, in order.
  std::vector<unsigned> flipped;
};

/// Counts of ops and casts, and bytes, of a step under its policy.
struct StepCost {
  struct Count {
    int64_t ops = 0;       ///< Ops that compute in the format.
    int64_t casts = 0;     ///< Casts to the format.
    int64_t castBytes = 0; ///< Bytes that these casts read and write.
    int64_t bytes = 0;     ///< Bytes of the results of the ops.
  };
  std::map<std::pair<Phase, std::string>, Count> counts;
  Count total;
  /// The number of ops that compute in a narrower format than the wide one.
  int64_t narrowOps = 0;
};

/// The decisions that a policy makes for a training step, with reasons, casts
/// and costs. Does not change the step.
class Explanation {
public:
  /// Both arguments must outlive the explanation. Emits an error for decisions
  /// whose formats do not fit together.
  static FailureOr<Explanation> create(func::FuncOp step, const Policy &policy);

  const PrecisionGraph &getGraph() const { return graph; }
  PrecisionAttr getDecision(unsigned node) const { return decisions[node]; }
  const Choice &getChoice(unsigned node) const { return choices[node]; }
  /// Returns the assigner's reason as text; empty if rule or class explain all.
  std::string getReason(unsigned node) const;

  /// Returns the element format that `value` will have.
  FloatType getFormat(Value value) const;

  /// Returns the casts that `op` reads, or whose source is a result of `op`.
  std::vector<const CastReport *> getCasts(Operation *op) const;

  /// Sets the fallbacks of ops, if the caller knows the plan.
  void setFallbacks(DenseMap<Operation *, Fallback> found) {
    fallbacks = std::move(found);
  }
  /// Returns the fallback of `op`; null if it has none, or the plan is not
  /// known.
  const Fallback *getFallback(Operation *op) const {
    auto it = fallbacks.find(op);
    return it == fallbacks.end() ? nullptr : &it->second;
  }

  StepCost getCost() const;

  /// Returns the smallest change that gives `node` another format, of those
  /// that are tried: a rule about the op itself, or about the op that it
  /// followed. Returns none if no such rule changes the format. Takes time
  /// linear in the size of the step.
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
  /// The formats that the decisions give to values.
  DenseMap<Value, FloatType> formats;
  std::vector<CastReport> casts;
  DenseMap<Operation *, SmallVector<unsigned, 2>> castsOfOps;
  DenseMap<Operation *, Fallback> fallbacks;
  /// Nodes by op, phase and name, which is what the rule of a flip matches.
  std::map<std::tuple<StringRef, Phase, StringRef>, std::vector<unsigned>>
      namesakes;
};

/// The cost of a rule: the step with all rules compared with the step without
/// this one.
struct RuleCost {
  const PolicyRule *rule;
  /// Ops, including updates, whose formats differ without the rule.
  int64_t changed = 0;
  /// With the rule minus without it.
  int64_t narrowOps = 0, casts = 0, castBytes = 0, bytes = 0;
};

/// Returns one entry per rule. Takes time linear in the size of the step for
/// each.
FailureOr<std::vector<RuleCost>> getRuleCosts(func::FuncOp step,
                                              const Explanation &explanation);

} // namespace mlir::binade

#endif // BINADE_PRECISION_EXPLAIN_H
