//===- LibraryAttention.cpp - Lowering of attention to cuDNN --------------===//

#include "LibraryAttention.h"

using namespace binade;
using namespace binade::cuda;

namespace {
/// A batch axis, with the strides of the operands in elements.
struct Axis {
  std::int64_t size = 1;
  std::array<std::int64_t, AttentionOperand::kCount> strides = {};
};

class AttentionLowering {
public:
  AttentionLowering(const plan::Attention &attention, const StreamSetup &setup)
      : attention(attention), setup(setup) {
    for (plan::Operand &operand : attention.listOperands())
      if (operand.isTensor())
        views.push_back(std::move(operand.view));
    for (std::size_t i = 0; attention.grouped && i < views.size(); ++i)
      if (AttentionProblem::isGrouped(i))
        views[i].strides[attention.batch.size() - 1] = 0;
  }

  Result<LibraryAttention> lower();

private:
  Error refuse(std::string what) const {
    return {setup.where,
            "cuDNN " + setup.cudnn->formatVersion() +
                " supports no attention " + std::move(what),
            ExitCode::Device};
  }
  DType typeOf(std::size_t operand) const {
    return setup.memory.typeOf(views[operand]);
  }
  Result<void> checkVersion() const;
  Result<void> checkTypes() const;
  Result<void> checkAlignment() const;
  std::vector<Axis> listAxes() const;
  bool areContiguous(const Axis &outer, const Axis &inner,
                     bool ofQueries = false) const;
  void merge(std::vector<Axis> &axes) const;
  void setHeads(AttentionProblem &p, std::vector<Axis> &axes) const;

  const plan::Attention &attention;
  const StreamSetup &setup;
  std::vector<plan::View> views; ///< By AttentionOperand.
};
} // namespace

/// cudnn-frontend lists faults of versions 9.10.0 and 9.10.1, and of gradients
/// up to 9.15.0 if the last block of keys is incomplete. Gradients are
/// deterministic on Hopper.
Result<void> AttentionLowering::checkVersion() const {
  constexpr std::size_t kFirst = 90000, kBroken = 91000, kMended = 91002,
                        kLastWithBlocks = 91500;
  constexpr int kFirstMajor = 8, kHopper = 9;
  constexpr std::int64_t kKeysOfBlock = 128;
  std::size_t version = setup.cudnn->getVersion();
  int major = setup.device->getProperties().capability.major;
  if (version < kFirst || (version >= kBroken && version < kMended))
    return refuse("in this version");
  if (major < kFirstMajor)
    return refuse("on this device");
  if (!attention.gradients)
    return {};
  if (major != kHopper)
    return refuse("with deterministic gradients on this device");
  if (version <= kLastWithBlocks && attention.keys % kKeysOfBlock)
    return refuse("with gradients for " + std::to_string(attention.keys) +
                  " keys, which is not a multiple of " +
                  std::to_string(kKeysOfBlock));
  if (attention.queries == 1 && attention.keys == 1)
    return refuse("with gradients for one query and one key");
  return {};
}

Result<void> AttentionLowering::checkTypes() const {
  DType type = typeOf(AttentionOperand::Query);
  if (type != DType::F16 && type != DType::BF16)
    return refuse("of " + std::string(name(type)));
  for (std::size_t i = 0; i < views.size(); ++i)
    if (i != AttentionOperand::Lse && typeOf(i) != type)
      return refuse("of " + std::string(name(type)) + " and " +
                    std::string(name(typeOf(i))));
  return {};
}

Result<void> AttentionLowering::checkAlignment() const {
  constexpr std::int64_t kColumns = 8;
  if (attention.depth % kColumns || attention.width % kColumns)
    return refuse("of " + std::to_string(attention.depth) + " and " +
                  std::to_string(attention.width) + " columns");
  for (std::size_t i = 0; i < views.size(); ++i) {
    bool isAligned = plan::findAlignment(setup.plan->buffers, views[i]) %
                         GraphTensor::kAlignment ==
                     0;
    // Rows are loaded 16 bytes at a time.
    for (std::size_t axis = 0; axis <= attention.batch.size(); ++axis)
      isAligned &=
          i == AttentionOperand::Lse || views[i].strides[axis] % kColumns == 0;
    if (!isAligned)
      return refuse("with rows at addresses that are not multiples of " +
                    std::to_string(GraphTensor::kAlignment));
  }
  return {};
}

/// Returns the batch axes without those of size 1.
std::vector<Axis> AttentionLowering::listAxes() const {
  std::vector<Axis> axes;
  for (std::size_t axis = 0; axis < attention.batch.size(); ++axis) {
    if (attention.batch[axis] == 1)
      continue;
    Axis &own = axes.emplace_back();
    own.size = attention.batch[axis];
    for (std::size_t i = 0; i < views.size(); ++i)
      own.strides[i] = views[i].strides[axis];
  }
  return axes;
}

/// Whether two axes are one in each operand, or in those that have a head for
/// each head of queries.
bool AttentionLowering::areContiguous(const Axis &outer, const Axis &inner,
                                      bool ofQueries) const {
  for (std::size_t i = 0; i < views.size(); ++i)
    if (outer.strides[i] != inner.strides[i] * inner.size &&
        !(ofQueries && AttentionProblem::isGrouped(i)))
      return false;
  return true;
}

/// While there are more than two axes, merges adjacent axes that are
/// contiguous.
void AttentionLowering::merge(std::vector<Axis> &axes) const {
  for (std::size_t i = 0; i + 1 < axes.size() && axes.size() > 2;) {
    if (!areContiguous(axes[i], axes[i + 1])) {
      ++i;
      continue;
    }
    axes[i + 1].size *= axes[i].size;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// Sets the heads and their strides, from the last of `axes`, which are
/// removed. The heads of all groups are one axis of cuDNN if they are
/// contiguous; otherwise there is one group.
void AttentionLowering::setHeads(AttentionProblem &p,
                                 std::vector<Axis> &axes) const {
  Axis own, groups;
  auto take = [&](Axis &into) {
    if (axes.empty())
      return;
    into = axes.back();
    axes.pop_back();
  };
  bool isShared = attention.grouped && attention.batch.back() > 1;
  if (isShared)
    take(own);
  merge(axes);
  if (!isShared) {
    take(own);
    groups = own;
    p.heads = p.groups = own.size;
  } else {
    if (!axes.empty() && areContiguous(axes.back(), own, /*ofQueries=*/true))
      take(groups);
    p.groups = groups.size;
    p.heads = groups.size * own.size;
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    HeadStrides &strides = p.strides[i];
    bool isGrouped = AttentionProblem::isGrouped(i);
    strides.head = isGrouped ? groups.strides[i] : own.strides[i];
    if (isGrouped && p.groups == 1) // Not used, but cuDNN requires one.
      strides.head = strides.row * attention.keys;
  }
}

Result<LibraryAttention> AttentionLowering::lower() {
  for (auto check :
       {&AttentionLowering::checkVersion, &AttentionLowering::checkTypes,
        &AttentionLowering::checkAlignment})
    if (auto done = (this->*check)(); !done)
      return done.takeError();
  LibraryAttention library;
  AttentionProblem &p = library.problem;
  p.type = typeOf(AttentionOperand::Query);
  p.queries = attention.queries;
  p.keys = attention.keys;
  p.depth = attention.depth;
  p.width = attention.width;
  p.scale = static_cast<float>(attention.scale);
  p.causal = attention.causal;
  p.areGradients = attention.gradients.has_value();
  for (std::size_t i = 0; i < views.size(); ++i)
    p.strides[i].row = views[i].strides[attention.batch.size()];
  std::vector<Axis> axes = listAxes();
  setHeads(p, axes);
  if (!axes.empty()) {
    p.batch = axes.back().size;
    for (std::size_t i = 0; i < views.size(); ++i)
      p.strides[i].batch = axes.back().strides[i];
    axes.pop_back();
  }
  for (const Axis &axis : axes) {
    AttentionAxis &outer = library.outer.emplace_back();
    outer.size = axis.size;
    for (std::size_t i = 0; i < views.size(); ++i)
      outer.bytes[i] =
          axis.strides[i] * static_cast<std::int64_t>(byteSize(typeOf(i)));
  }
  return library;
}

Result<LibraryAttention> cuda::toLibrary(const plan::Attention &attention,
                                         const StreamSetup &setup) {
  if (!attention.extras.areNone())
    return Error{setup.where,
                 "the graphs for cuDNN have no mask, bias, soft cap or dropout",
                 ExitCode::Device};
  return AttentionLowering(attention, setup).lower();
}
