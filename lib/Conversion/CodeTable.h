//===- CodeTable.h - the nearest value of a code book -----------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERSION_CODETABLE_H
#define BINADE_LIB_CONVERSION_CODETABLE_H

#include "LaneCodec.h"

namespace mlir::binade {

/// The code of each lane, in i8: how many thresholds a number has reached.
IntLanes findCode(FloatLanes x, CodeBookAttr book, LaneCodec::Lookup lookup);

/// The value of each code in i8.
FloatLanes findValue(IntLanes code, CodeBookAttr book,
                     LaneCodec::Lookup lookup);

} // namespace mlir::binade

#endif // BINADE_LIB_CONVERSION_CODETABLE_H
