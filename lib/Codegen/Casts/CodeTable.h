//===- CodeTable.h - Lookups in code books ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_CASTS_CODETABLE_H
#define BINADE_LIB_CODEGEN_CASTS_CODETABLE_H

#include "LaneCodec.h"

namespace mlir::binade {

/// Returns the code of each lane, in i8: the number of thresholds that are <=
/// x.
IntLanes findCode(FloatLanes x, CodeBookAttr book, LaneCodec::Lookup lookup);

/// Returns the value of each code in i8.
FloatLanes findValue(IntLanes code, CodeBookAttr book,
                     LaneCodec::Lookup lookup);

/// Returns log2 of the magnitude of each code in i8, of a code book or of a
/// float of at most 8 bits.
FloatLanes findLogarithm(IntLanes code, QuantizedAttr format,
                         LaneCodec::Lookup lookup);
/// Returns any f32 with the sign of each code in i8.
FloatLanes findSign(IntLanes code, QuantizedAttr format);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_CODETABLE_H
