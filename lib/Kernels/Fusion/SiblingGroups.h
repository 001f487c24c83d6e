//===- SiblingGroups.h - Groups that read the same tensors ------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_FUSION_SIBLINGGROUPS_H
#define BINADE_LIB_KERNELS_FUSION_SIBLINGGROUPS_H

#include "Grouping.h"

namespace mlir::binade {

/// Finds groups that would load fewer bytes as one kernel, because they read
/// the same tensors element by element.
class SiblingGroups {
public:
  using CanJoin =
      function_ref<bool(const FusionGroup &into, const FusionGroup &other)>;
  using Merge = function_ref<void(unsigned from, unsigned into)>;

  /// `inputs` are the groups that each group reads.
  SiblingGroups(ArrayRef<FusionGroup> groups,
                std::vector<llvm::SmallSetVector<unsigned, 4>> inputs);

  /// Calls `merge` for pairs of groups that may join and do not depend on each
  /// other, if no other group is then executed later, or the second one reads
  /// nothing that is computed after the first one.
  void mergeAll(CanJoin canJoin, Merge merge);

  /// Calls `merge` for groups that are elementwise or reduce rows (`into`) and
  /// groups that reduce columns of the same tensors, or of results of the
  /// former, if a kernel that reduces rows can keep these in registers.
  void mergeColumnSums(Merge merge);

private:
  /// The tensors that a group reads element by element.
  using Loads = llvm::SmallSetVector<Value, 4>;

  Loads findLoads(const FusionGroup &group) const;
  /// Returns the tensors that a reduction of columns reads.
  Loads findColumnLoads(const FusionGroup &group) const;
  unsigned findCurrent(unsigned group) const;
  bool isWorthwhile(unsigned x, unsigned y) const;
  bool dependsOn(unsigned reader, unsigned group) const;
  bool dependsIndirectlyOn(unsigned reader, unsigned group) const;
  bool canShareElements(unsigned into, unsigned columns) const;
  bool areClose(unsigned early, unsigned late) const;

  ArrayRef<FusionGroup> groups;
  std::vector<llvm::SmallSetVector<unsigned, 4>> inputs;
  std::vector<unsigned> current; ///< What a group was merged into, or itself.
  std::vector<Loads> loads;
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_FUSION_SIBLINGGROUPS_H
