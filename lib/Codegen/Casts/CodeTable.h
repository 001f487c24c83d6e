//===- CodeTable.h - tables of codes ----------------------------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_CASTS_CODETABLE_H
#define BINADE_LIB_CODEGEN_CASTS_CODETABLE_H

#include "LaneCodec.h"

namespace mlir::binade {

/// The code of each lane, in i8: how many thresholds a number has reached.
IntLanes findCode(FloatLanes x, CodeBookAttr book, LaneCodec::Lookup lookup);

/// The value of each code in i8.
FloatLanes findValue(IntLanes code, CodeBookAttr book,
                     LaneCodec::Lookup lookup);

/// The logarithm to base two of the magnitude of each code in i8, of a book or
/// of a float of at most 8 bits.
FloatLanes findLogarithm(IntLanes code, QuantizedAttr format,
                         LaneCodec::Lookup lookup);
/// Any number of the same sign.
FloatLanes findSign(IntLanes code, QuantizedAttr format);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_CODETABLE_H
