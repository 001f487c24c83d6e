//===- CudnnAttention.h - Attention with cuDNN ------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_CUDNNATTENTION_H
#define BINADE_RUNTIME_CUDA_CUDNNATTENTION_H

#include "CudnnGraph.h"
#include "binade/Container/DType.h"

namespace binade::cuda {

/// The distances between batches, heads and rows, in elements. Columns are
/// dense.
struct HeadStrides {
  std::int64_t batch = 0, head = 0, row = 0;

  bool operator==(const HeadStrides &) const = default;
};

/// The operands of attention: those of the forward pass, then those of the
/// gradients.
struct AttentionOperand {
  enum Which : std::uint8_t {
    Query,
    Key,
    Value,
    Y,
    Lse,
    Dy,
    Dquery,
    Dkey,
    Dvalue
  };
  static constexpr std::size_t kCount = 9, kForwardCount = 5;
};

/// An attention of a plan as cuDNN expects it, or its gradients.
struct AttentionProblem {
  DType type = DType::BF16; ///< F16 or BF16, of all operands except `lse`.
  /// `heads` is the number of heads of queries. Each of the `groups` heads of
  /// keys and values is used by consecutive heads of queries.
  std::int64_t batch = 1, heads = 1, groups = 1;
  std::int64_t queries = 1, keys = 1;
  std::int64_t depth = 1; ///< Columns of query and key.
  std::int64_t width = 1; ///< Columns of value and y.
  float scale = 1;
  bool causal = false;
  bool areGradients = false;
  /// By AttentionOperand.
  std::array<HeadStrides, AttentionOperand::kCount> strides = {};

  std::size_t countOperands() const {
    return areGradients ? AttentionOperand::kCount
                        : AttentionOperand::kForwardCount;
  }
  /// Whether the operand has a head for each group only.
  static bool isGrouped(std::size_t operand);
  bool operator==(const AttentionProblem &) const = default;
};

/// The addresses for a run, by AttentionOperand.
struct AttentionAddresses {
  std::array<Address, AttentionOperand::kCount> operands = {};
  Address workspace = 0; ///< A multiple of 256.
};

/// An attention with its engine, which gives the same bits in each run.
class CudnnAttention {
public:
  /// Selects cuDNN's best engine. An engine for gradients may need workspace
  /// for each head; if it needs more than `workspaceLimit` bytes, the batch and
  /// then the heads are divided into parts, which run one after the other. An
  /// error (exit code 6) if cuDNN has no engine, or needs more workspace even
  /// for the smallest part.
  static Result<CudnnAttention> create(std::shared_ptr<Cudnn> library,
                                       const AttentionProblem &problem,
                                       std::uint64_t workspaceLimit);

  std::uint64_t getWorkspaceBytes() const { return workspaceBytes; }
  /// Returns text for reports: "cudnn 9.24.0 attention engine 6 in 4 parts".
  std::string describe() const;

  /// Enqueues the attention on the device's stream.
  Result<void> run(const AttentionAddresses &addresses,
                   const Label &label) const;

private:
  CudnnAttention(std::shared_ptr<Cudnn> library, AttentionProblem problem)
      : library(std::move(library)), problem(std::move(problem)) {}
  /// Prepares an engine for `batch` batches and `groups` groups of each.
  Result<void> prepare(std::int64_t batch, std::int64_t groups);
  Result<void> runPart(const AttentionAddresses &addresses,
                       const Label &label) const;

  std::shared_ptr<Cudnn> library;
  AttentionProblem problem;
  AttentionProblem part; ///< The part of the problem that a run computes.
  std::optional<CudnnPlan> plan;
  std::uint64_t workspaceBytes = 0, sumsOffset = 0;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_CUDNNATTENTION_H
