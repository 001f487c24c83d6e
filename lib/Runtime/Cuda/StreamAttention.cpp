//===- StreamAttention.cpp - Attention on a stream ------------------------===//

#include "LibraryAttention.h"
#include <limits>

namespace binade::cuda {

static Result<SharedAttention> create(const StreamSetup &setup,
                                      const AttentionProblem &problem,
                                      std::uint64_t reserved) {
  std::uint64_t limit = setup.prefersLibraries
                            ? std::numeric_limits<std::uint64_t>::max()
                            : reserved;
  Result<CudnnAttention> attention =
      CudnnAttention::create(setup.cudnn, problem, limit);
  if (!attention)
    return attention.takeError();
  SharedAttention shared{*std::move(attention), {}};
  std::uint64_t needed = shared.attention.getWorkspaceBytes();
  if (needed <= reserved)
    return shared;
  Result<DeviceMemory> memory = setup.device->allocate(needed);
  if (!memory)
    return memory.takeError();
  shared.extraWorkspace = *std::move(memory);
  return shared;
}

/// Records with equal problems share an attention because cuDNN compiles its
/// kernels when it is created.
std::shared_ptr<const Result<SharedAttention>>
AttentionCache::find(const StreamSetup &setup, const AttentionProblem &problem,
                     std::uint64_t reserved) {
  for (const Entry &entry : entries)
    if (entry.problem == problem && entry.reserved == reserved)
      return entry.attention;
  auto made = std::make_shared<const Result<SharedAttention>>(
      create(setup, problem, reserved));
  entries.push_back({problem, reserved, made});
  return made;
}

namespace {
class AttentionOnStream : public StreamOperation {
public:
  AttentionOnStream(std::shared_ptr<const Result<SharedAttention>> attention,
                    std::vector<AttentionAxis> outer,
                    const plan::Attention &record, const StreamSetup &setup,
                    LibraryScratch scratch, std::string_view label)
      : attention(std::move(attention)), outer(std::move(outer)), label(label),
        scratch(std::move(scratch)) {
    for (const plan::Operand &operand : record.listOperands())
      if (operand.isTensor())
        operands.push_back(setup.memory.addressOf(operand.view));
  }

  Result<void> run(std::span<const std::int64_t> iteration) override {
    AttentionAddresses addresses;
    for (std::size_t i = 0; i < operands.size(); ++i)
      addresses.operands[i] = toDevice(operands[i].at(iteration));
    Address extra = (*attention)->extraWorkspace.get();
    addresses.workspace = extra ? extra : scratch.at(iteration);
    return runAxis(0, addresses);
  }

  std::string getImplementation() const override {
    return (*attention)->attention.describe();
  }

private:
  /// Loops over the batch axes that cuDNN does not support.
  Result<void> runAxis(std::size_t axis, AttentionAddresses addresses) {
    if (axis == outer.size())
      return (*attention)->attention.run(addresses, {"attention", label});
    for (std::int64_t i = 0; i < outer[axis].size; ++i) {
      if (auto done = runAxis(axis + 1, addresses); !done)
        return done;
      for (std::size_t k = 0; k < operands.size(); ++k)
        addresses.operands[k] += static_cast<Address>(outer[axis].bytes[k]);
    }
    return {};
  }

  std::shared_ptr<const Result<SharedAttention>> attention;
  std::vector<AttentionAxis> outer;
  std::string_view label;
  std::vector<binade::Address> operands; ///< By AttentionOperand.
  LibraryScratch scratch;
};

MadeOperation createLibraryAttention(const plan::Record &record,
                                     const StreamSetup &setup) {
  const auto &attention = std::get<plan::Attention>(record.body);
  Result<LibraryAttention> library = toLibrary(attention, setup);
  if (!library)
    return library.takeError();
  LibraryScratch scratch(attention.libraryScratch, setup);
  auto found = setup.attentions->find(setup, library->problem, scratch.bytes);
  if (!*found)
    return found->error();
  return std::unique_ptr<StreamOperation>(std::make_unique<AttentionOnStream>(
      std::move(found), std::move(library->outer), attention, setup,
      std::move(scratch), record.label));
}
} // namespace

MadeOperation createAttention(const plan::Record &record,
                              const StreamSetup &setup) {
  const auto &attention = std::get<plan::Attention>(record.body);
  // The plan reserves no workspace where the compiler did not choose cuDNN: the
  // bundle's kernels are as fast, a part would need too much, or the graph has
  // no such mask, bias or dropout.
  bool hasNoWorkspace =
      !attention.libraryScratch && !attention.deviceKernel.empty();
  if (!setup.cudnn || (hasNoWorkspace && !setup.prefersLibraries))
    return createKernels(record, setup);
  return fallBackToKernels(createLibraryAttention(record, setup), record,
                           attention.deviceKernel, setup);
}
} // namespace binade::cuda
