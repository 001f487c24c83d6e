//===- Launch.cpp - Parallel execution of kernels -------------------------===//

#include "Launch.h"
#include "binade/Container/Printable.h"
#include "binade/Runtime/Profile.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

/// Launches that read and write fewer bytes run on the calling thread: threads
/// take longer to start and to wait for than they save (docs/performance.md,
/// "Launches").
static std::uint64_t getSmallLaunch() {
  constexpr std::uint64_t KiB = 1 << 10;
  return (ThreadTeam::get().sleeps() ? 1024 : 128) * KiB;
}

namespace {
using Kernel = void (*)(void *const *buffers, std::int64_t begin,
                        std::int64_t end);
using Finish = void (*)(void *const *buffers, std::int64_t blocks);

/// The addresses of the operands of a kernel.
class Operands {
public:
  Operands(const std::vector<View> &views, const Memory &memory) {
    for (const View &view : views)
      addresses.push_back(memory.addressOf(view));
    fixed = std::all_of(addresses.begin(), addresses.end(),
                        [](const Address &a) { return a.isFixed(); });
    current.resize(addresses.size());
    resolve({});
  }

  void *const *get(std::span<const std::int64_t> iteration) {
    if (!fixed)
      resolve(iteration);
    return current.data();
  }
  void *const *get() const { return current.data(); }

private:
  void resolve(std::span<const std::int64_t> iteration) {
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (addresses[i].covers(iteration))
        current[i] = addresses[i].at(iteration);
  }

  std::vector<Address> addresses;
  std::vector<void *> current;
  bool fixed;
};

class LaunchOperation : public Operation {
public:
  LaunchOperation(const Launch &launch, const Memory &memory,
                  std::vector<Kernel> kernels, Finish finish, bool isSmall);
  void run(const ExecutionContext &context) override;

private:
  std::vector<Kernel> kernels; ///< The kernel of each segment.
  Finish finish;
  bool isSmall;
  std::int64_t grain;
  std::vector<Operands> segments;
  std::vector<std::int64_t> firsts, extents;
  /// The first block of each segment, then the total number of blocks.
  std::vector<std::int64_t> firstBlock;
  std::optional<Operands> finishOperands;
};
} // namespace

LaunchOperation::LaunchOperation(const Launch &launch, const Memory &memory,
                                 std::vector<Kernel> kernels, Finish finish,
                                 bool isSmall)
    : kernels(std::move(kernels)), finish(finish), isSmall(isSmall),
      grain(launch.grain) {
  std::int64_t blocks = 0;
  for (const Segment &segment : launch.segments) {
    segments.emplace_back(segment.operands, memory);
    firsts.push_back(segment.first);
    extents.push_back(segment.extent);
    firstBlock.push_back(blocks);
    blocks += segment.countBlocks(grain);
  }
  firstBlock.push_back(blocks);
  if (!launch.finishOperands.empty())
    finishOperands.emplace(launch.finishOperands, memory);
}

void LaunchOperation::run(const ExecutionContext &context) {
  for (Operands &operands : segments)
    operands.get(context.iteration);
  auto runBlock = [this](std::int64_t block, unsigned) {
    auto next = std::upper_bound(firstBlock.begin(), firstBlock.end(), block);
    auto segment = static_cast<std::size_t>(next - firstBlock.begin()) - 1;
    std::int64_t begin =
        firsts[segment] + (block - firstBlock[segment]) * grain;
    std::int64_t end = begin + std::min(grain, extents[segment] - begin);
    kernels[segment](segments[segment].get(), begin, end);
  };
  unsigned threads = isSmall ? 1 : context.threads;
  context.team->parallelFor(threads, firstBlock.back(), runBlock);
  if (finish) {
    Operands &operands = finishOperands ? *finishOperands : segments.front();
    finish(operands.get(context.iteration), firstBlock.back());
  }
}

Result<std::unique_ptr<Operation>>
binade::createLaunch(const Record &record, const Memory &memory,
                     const KernelObject &kernels, std::string_view where) {
  const auto &launch = std::get<Launch>(record.body);
  auto find = [&](const std::string &symbol) -> Result<void *> {
    if (void *address = kernels.find(symbol))
      return address;
    return Error{std::string(where),
                 "the kernels have no function " + quote(symbol)};
  };
  std::vector<Kernel> ofSegments;
  for (const Segment &segment : launch.segments) {
    Result<void *> kernel =
        find(segment.kernel.empty() ? launch.kernel : segment.kernel);
    if (!kernel)
      return kernel.takeError();
    ofSegments.push_back(reinterpret_cast<Kernel>(*kernel));
  }
  void *finish = nullptr;
  if (launch.finish) {
    Result<void *> found = find(launch.kernel + "_finish");
    if (!found)
      return found.takeError();
    finish = *found;
  }
  bool isSmall = costOf(record, memory.buffers).bytes < getSmallLaunch();
  return std::unique_ptr<Operation>(std::make_unique<LaunchOperation>(
      launch, memory, std::move(ofSegments), reinterpret_cast<Finish>(finish),
      isSmall));
}
