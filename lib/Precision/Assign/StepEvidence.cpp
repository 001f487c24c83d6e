//===- StepEvidence.cpp - Recorded ranges of a step -----------------------===//

#include "binade/Precision/StepEvidence.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;

StepEvidence::StepEvidence(func::FuncOp step, const Policy &policy)
    : policy(policy) {
  for (const NamedValue &named : nameValues(step))
    if (auto found = policy.evidence->ranges.find(named.name);
        found != policy.evidence->ranges.end())
      ranges[named.value] = &found->second;
  lossScale = findLossScale();
}

/// Whether `value` is a gradient, which is multiplied by the loss scale.
static bool isScaled(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer && getPhase(producer) == Phase::Backward;
}

double StepEvidence::findLossScale() const {
  if (!policy.lossScaling)
    return 1.0;
  if (policy.lossScaling->fixed)
    return *policy.lossScaling->fixed;
  double scale = policy.lossScaling->init;
  for (auto [value, range] : ranges)
    while (isScaled(value) && range->nonFinite == 0 && scale > 0 &&
           range->getOverflow(policy.narrow, scale) > 0)
      scale *= policy.lossScaling->backoff;
  return scale;
}

SmallVector<FormatEvidence, 1> StepEvidence::find(Value value) const {
  SmallVector<FormatEvidence, 1> evidence;
  if (auto save = value.getDefiningOp<SaveOp>())
    value = save.getX();
  const RecordedRange *range = ranges.lookup(value);
  if (!range)
    return evidence;
  double scale = isScaled(value) ? lossScale : 1.0;
  for (FloatType format : ArrayRef(getFormatChoices(policy)).drop_front())
    evidence.push_back({format, range, scale,
                        range->getUnderflow(format, scale),
                        range->getOverflow(format, scale)});
  return evidence;
}

static std::string formatShare(double share) {
  return llvm::formatv("{0}%", llvm::format("%.3g", 100 * share));
}

/// Returns why the format does not suit the value; empty if it does.
StringRef StepEvidence::explainUnsuitable(Value value,
                                          const FormatEvidence &seen) const {
  EvidenceLimits limits = policy.limits.value_or(EvidenceLimits());
  for (auto [what, share, limit] :
       {std::tuple("overflows", seen.overflow, limits.overflow),
        std::tuple("underflows", seen.underflow, limits.underflow)})
    if (share > limit)
      return StringAttr::get(
                 value.getContext(),
                 llvm::formatv("{0}: {1} of {2} {3} in {4}, more than {5}",
                               policy.evidence->name, formatShare(share),
                               describe(value), what, seen.format,
                               formatShare(limit)))
          .getValue();
  return "";
}

ArrayRef<UnsuitableFormat> StepEvidence::findUnsuitable(Value value) {
  auto [entry, isNew] = unsuitable.try_emplace(value);
  if (isNew)
    for (const FormatEvidence &seen : find(value))
      if (StringRef reason = explainUnsuitable(value, seen); !reason.empty())
        entry->second.push_back({seen.format, reason});
  return entry->second;
}
