//===- ExactSums.h - Exact results and their bounds -------------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_EXACTSUMS_H
#define BINADE_LIB_VERIFICATION_EXACTSUMS_H

#include "ReferenceBounds.h"
#include <cmath>

namespace mlir::binade {

/// The sum of which an element is the rounded result, in f64.
struct ExactSum {
  double value = 0, magnitude = 0;
  int64_t terms = 0;
  /// The fraction of the sum of magnitudes that hardware may drop in addition
  /// to the rounding of f32 sums.
  double dropped = 0.0;

  void add(double term) {
    value += term;
    magnitude += std::fabs(term);
    ++terms;
  }
  void add(const ExactSum &part) {
    value += part.value;
    magnitude += part.magnitude;
    terms += part.terms;
  }
  /// Multiplies by a scale, which adds one rounding.
  void scale(double factor) {
    value *= factor;
    magnitude *= std::fabs(factor);
    ++terms;
  }
};

/// An element of the result: its index in the access, and its sum.
using ExactElement = std::pair<int64_t, ExactSum>;

/// Compares `count` elements of about `terms` terms each with access `out`, or
/// a random sample that takes about a second. The bound allows sums in f32, in
/// any order, and one rounding.
Judgement judgeSums(const Execution &execution, size_t out, int64_t count,
                    int64_t terms,
                    llvm::function_ref<ExactElement(int64_t)> compute);

// Overloads of `judge` for the kinds of records. Launches are evaluated by the
// reference; copies are repeated.
::binade::Result<Judgement> judge(ModuleOp source,
                                  const ::binade::plan::Launch &launch,
                                  const Execution &execution);
::binade::Result<Judgement> judge(ModuleOp source,
                                  const ::binade::plan::Copy &copy,
                                  const Execution &execution);
::binade::Result<Judgement> judge(ModuleOp source,
                                  const ::binade::plan::Matmul &matmul,
                                  const Execution &execution);
::binade::Result<Judgement>
judge(ModuleOp source, const ::binade::plan::Convolution &convolution,
      const Execution &execution);
/// Evaluates the reference's attention op on all heads, or on a random sample
/// that takes about a second. Heads that share keys, or the gradient of a bias,
/// are evaluated together.
::binade::Result<Judgement> judge(ModuleOp source,
                                  const ::binade::plan::Attention &attention,
                                  const Execution &execution);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_EXACTSUMS_H
