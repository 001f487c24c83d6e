//===- ExchangeFormat.h - Formats of exchanged gradients --------*- C++ -*-===//

#ifndef BINADE_IR_EXCHANGEFORMAT_H
#define BINADE_IR_EXCHANGEFORMAT_H

#include "binade/IR/Binade.h"
#include "binade/IR/Ops/ExchangeEnums.h.inc"

namespace mlir::binade {

/// The format in which a policy exchanges gradients, as text.
inline constexpr StringLiteral kExchangeAttr = "binade.exchange";

} // namespace mlir::binade

#endif // BINADE_IR_EXCHANGEFORMAT_H
