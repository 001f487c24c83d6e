//===- Formats.h - Number formats and where they are allowed ----*- C++ -*-===//
//
// The lists of formats that policies, decisions in the IR and verifiers share.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_FORMATS_H
#define BINADE_IR_FORMATS_H

#include "mlir/IR/BuiltinTypes.h"
#include <array>

namespace mlir::binade {

/// Formats that operands may be rounded to.
inline constexpr std::array<StringLiteral, 4> kOperandFloats = {"f32", "tf32",
                                                                "bf16", "f16"};
/// Formats of partial sums.
inline constexpr std::array<StringLiteral, 4> kSumFloats = {"f64", "f32",
                                                            "bf16", "f16"};
/// Formats of results and of what memory stores.
inline constexpr std::array<StringLiteral, 3> kComputedFloats = {"f32", "bf16",
                                                                 "f16"};
/// 8-bit formats. Only quantized and saved values may have them.
inline constexpr std::array<StringLiteral, 7> kByteFloats = {
    "f8E4M3FN",   "f8E5M2",     "f8E4M3",       "f8E3M4",
    "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ"};

/// Whether `names` contains the name of `format`.
bool isOneOf(FloatType format, ArrayRef<StringLiteral> names);

/// Returns the float type that a text calls `name`; null if there is none.
FloatType findFormat(StringRef name, MLIRContext *context);

/// Returns the names of all formats, for messages.
ArrayRef<StringLiteral> getFormatNames();

/// Returns "f32, bf16 or f16" for these names.
std::string joinNames(ArrayRef<StringLiteral> names);

/// Checks the formats of the decision of `op`, which implements
/// PrecisionOpInterface, and of its operands and results:
/// - only contractions and `save` quantize operands, and only contractions have
///   an accumulation format;
/// - only saved results have a format of 8 bits;
/// - contractions have operands and results of 16 bits, f32 or f64;
/// - f64 does not occur together with another float format.
LogicalResult verifyFormats(Operation *op);

/// Returns the largest finite value of `format`.
inline double getLargest(FloatType format) {
  return llvm::APFloat::getLargest(format.getFloatSemantics())
      .convertToDouble();
}

/// Whether `op` copies elements bit for bit, so that a decision has one format
/// for its operands and results.
bool hasOneFormat(Operation *op);

} // namespace mlir::binade

#endif // BINADE_IR_FORMATS_H
