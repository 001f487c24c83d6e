//===- ExactSums.h - sums of products, element by element -------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_EXACTSUMS_H
#define BINADE_LIB_VERIFICATION_EXACTSUMS_H

#include "ReferenceBounds.h"
#include <cmath>

namespace mlir::binade {

/// What an element is the sum of, in f64.
struct ExactSum {
  double value = 0, magnitude = 0;
  int64_t terms = 0;
  /// What hardware may drop of the sum of magnitudes, beyond sums in f32.
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
  /// A rounding more.
  void scale(double factor) {
    value *= factor;
    magnitude *= std::fabs(factor);
    ++terms;
  }
};

/// An element of the result: where it is in its access, and its sum.
using ExactElement = std::pair<int64_t, ExactSum>;

/// Compares `count` elements of about `terms` terms each, or as many of them as
/// take about a second, with access `out`. Sums in f32, in any order, and one
/// rounding are right.
Judgement judgeSums(const Execution &execution, size_t out, int64_t count,
                    int64_t terms,
                    llvm::function_ref<ExactElement(int64_t)> compute);

// What `judge` does for records of each kind but loops. Launches are evaluated
// by the reference, copies are done again.
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
/// Of as many heads as take about a second, by the reference's op.
::binade::Result<Judgement> judge(ModuleOp source,
                                  const ::binade::plan::Attention &attention,
                                  const Execution &execution);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_EXACTSUMS_H
