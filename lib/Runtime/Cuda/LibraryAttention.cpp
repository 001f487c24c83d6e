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
  std::vector<Axis> mergeAxes() const;

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

/// Returns the batch axes without those of size 1. While there are more than
/// two, adjacent axes become one if they are contiguous in each operand.
std::vector<Axis> AttentionLowering::mergeAxes() const {
  std::vector<Axis> axes;
  for (std::size_t axis = 0; axis < attention.batch.size(); ++axis) {
    if (attention.batch[axis] == 1)
      continue;
    Axis &own = axes.emplace_back();
    own.size = attention.batch[axis];
    for (std::size_t i = 0; i < views.size(); ++i)
      own.strides[i] = views[i].strides[axis];
  }
  auto areContiguous = [&](const Axis &outer, const Axis &inner) {
    for (std::size_t i = 0; i < views.size(); ++i)
      if (outer.strides[i] != inner.strides[i] * inner.size)
        return false;
    return true;
  };
  for (std::size_t i = 0; i + 1 < axes.size() && axes.size() > 2;) {
    if (!areContiguous(axes[i], axes[i + 1])) {
      ++i;
      continue;
    }
    axes[i + 1].size *= axes[i].size;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return axes;
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
  std::vector<Axis> axes = mergeAxes();
  auto take = [&](std::int64_t HeadStrides::*stride) {
    std::int64_t size = 1;
    if (!axes.empty()) {
      size = axes.back().size;
      for (std::size_t i = 0; i < views.size(); ++i)
        p.strides[i].*stride = axes.back().strides[i];
      axes.pop_back();
    }
    return size;
  };
  p.heads = p.groups = take(&HeadStrides::head);
  p.batch = take(&HeadStrides::batch);
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
  return AttentionLowering(attention, setup).lower();
}
