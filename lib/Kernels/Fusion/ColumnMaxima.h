//===- ColumnMaxima.h - Maxima by columns -----------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_FUSION_COLUMNMAXIMA_H
#define BINADE_LIB_KERNELS_FUSION_COLUMNMAXIMA_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The maximum of a tensor, such as for a scale, is first computed of each row.
/// Where another op reduces columns of the tensor and nothing computes it by
/// rows, computes the maxima of columns instead, so that one kernel reduces
/// columns only.
void reduceMaximaByColumns(Block &block);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_FUSION_COLUMNMAXIMA_H
