//===- Targets.cpp - The table of kinds of targets ------------------------===//

#include "binade/Pipelines/Target.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::binade;

// Each kind has a folder next to this file and a line in this list.
#define BINADE_TARGET_KINDS(KIND)                                              \
  KIND(Cpu)                                                                    \
  KIND(Cuda)

namespace mlir::binade {
#define DECLARE(kind) TargetKind get##kind##Kind();
BINADE_TARGET_KINDS(DECLARE)
#undef DECLARE
} // namespace mlir::binade

ArrayRef<TargetKind> mlir::binade::getTargetKinds() {
#define LIST(kind) get##kind##Kind(),
  static const TargetKind kinds[] = {BINADE_TARGET_KINDS(LIST)};
#undef LIST
  return kinds;
}

std::unique_ptr<Target> mlir::binade::findTarget(StringRef name) {
  for (const TargetKind &kind : getTargetKinds())
    if (std::unique_ptr<Target> target = kind.create(name))
      return target;
  return nullptr;
}

std::vector<std::string> mlir::binade::getTargetNames() {
  std::vector<std::string> names;
  for (const TargetKind &kind : getTargetKinds())
    llvm::append_range(names, kind.listNames());
  return names;
}

std::string mlir::binade::getTargetName(const ::binade::Plan &plan) {
  for (const TargetKind &kind : getTargetKinds())
    if (std::string name = kind.findName ? kind.findName(plan) : "";
        !name.empty())
      return name;
  return {};
}

void mlir::binade::addTargetPasses(OpPassManager &passes, StringRef name) {
  ArrayRef<TargetKind> kinds = getTargetKinds();
  auto hasPasses = [](const TargetKind &kind) { return kind.addPasses; };
  const auto *chosen = llvm::find_if(kinds, [&](const TargetKind &kind) {
    return llvm::is_contained(kind.listNames(), name);
  });
  if (chosen == kinds.end())
    chosen = llvm::find_if(kinds, hasPasses);
  if (chosen != kinds.end() && hasPasses(*chosen))
    chosen->addPasses(passes, name);
}

void mlir::binade::printTarget(raw_ostream &os, const Twine &name,
                               const Twine &summary) {
  os << llvm::left_justify(name.str(), 15) << summary << "\n";
}
