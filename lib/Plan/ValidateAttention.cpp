//===- ValidateAttention.cpp - Validation of attention --------------------===//

#include "Validate.h"
#include <cmath>

using namespace binade;
using namespace binade::plan;

static std::string findFault(const AttentionExtras &extras) {
  if (!std::isfinite(extras.softcap) || extras.softcap < 0)
    return "a soft cap of " + std::to_string(extras.softcap) +
           ", expected a finite number of at least 0";
  if (!extras.dropout)
    return "";
  if (!(extras.dropout->ratio >= 0 && extras.dropout->ratio <= 1))
    return "dropout with ratio " + std::to_string(extras.dropout->ratio) +
           ", expected a number in [0, 1]";
  if (extras.dropout->stream < 0 || extras.dropout->stream > UINT32_MAX)
    return "dropout with stream " + std::to_string(extras.dropout->stream) +
           ", expected a number of 32 bits";
  return "";
}

/// Returns the axes along which a bias, or its gradient, is broadcast.
static std::vector<bool> findBroadcast(const View &view) {
  std::vector<bool> axes;
  for (std::int64_t stride : view.strides)
    axes.push_back(stride == 0);
  return axes;
}

static std::string findFault(const Attention::Gradients &gradients,
                             const std::vector<View> &biases) {
  std::int64_t next = 0;
  for (const auto &[bias, view] : gradients.dbiases) {
    if (bias < next || bias >= static_cast<std::int64_t>(biases.size()))
      return "the gradient of bias " + std::to_string(bias) +
             ", expected ascending indices below " +
             std::to_string(biases.size());
    if (findBroadcast(view) != findBroadcast(biases[bias]))
      return "dbias " + std::to_string(bias) +
             " has strides of 0 along other axes than the bias";
    next = bias + 1;
  }
  return "";
}

std::string plan::findFault(const Attention &a) {
  if (a.causal && a.queries != a.keys)
    return "causal attention of " + std::to_string(a.queries) +
           " queries and " + std::to_string(a.keys) + " keys";
  if (a.grouped && a.batch.empty())
    return "grouped attention without batch axes";
  std::string fault = ::findFault(a.extras);
  if (fault.empty() && a.gradients)
    fault = ::findFault(*a.gradients, a.extras.biases);
  return fault;
}
