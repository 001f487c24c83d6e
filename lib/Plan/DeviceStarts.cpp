//===- DeviceStarts.cpp - Kernel launches on a device ---------------------===//

#include "binade/Plan/DeviceStarts.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <map>

using namespace binade;
using namespace binade::plan;

/// Maximum blocks of a multi-tensor launch: enough for the memory of any device
/// with the compiler's block size, and a table that is small in comparison.
static constexpr std::int64_t kMaxBlocks = 1 << 24;

namespace {
class StartLister {
public:
  StartLister(const Plan &plan, const std::string &where)
      : plan(plan), where(where) {}

  Result<std::vector<DeviceStart>> list(const std::string &name,
                                        std::span<const View> operands,
                                        std::string_view label);
  Result<std::vector<DeviceStart>> list(const Launch &launch,
                                        std::string_view label);

private:
  Error fail(std::string message) const {
    return Error{where, std::move(message)};
  }
  Result<const DeviceKernel *> find(const std::string &name) const;
  Result<DeviceStart> start(const std::string &name, std::size_t number) const;
  Result<void> checkAligned(std::span<const View> views,
                            const DeviceKernel &kernel,
                            std::string_view label) const;
  Result<void> addOperands(const std::vector<View> &views,
                           const DeviceKernel &kernel, std::string_view label,
                           std::vector<std::int64_t> &row) const;
  Result<std::vector<DeviceStart>> listMultiTensor(const Launch &launch,
                                                   std::string_view label);

  const Plan &plan;
  const std::string &where;
};
} // namespace

static const std::string &getKernel(const Launch &launch,
                                    const Segment &segment) {
  return segment.kernel.empty() ? launch.kernel : segment.kernel;
}

Result<const DeviceKernel *> StartLister::find(const std::string &name) const {
  if (const DeviceKernel *kernel = plan.findDeviceKernel(name))
    return kernel;
  return fail("the plan has no device kernel " + quote(name));
}

Result<DeviceStart> StartLister::start(const std::string &name,
                                       std::size_t number) const {
  Result<const DeviceKernel *> kernel = find(name);
  if (!kernel)
    return kernel.takeError();
  if (number >= (*kernel)->entries.size())
    return fail("kernel " + quote(name) + " has no finish");
  const DeviceKernel::Entry &entry = (*kernel)->entries[number];
  return DeviceStart{*kernel, &entry, entry.grid.front(), {}, {}, {}};
}

Result<std::vector<DeviceStart>>
StartLister::list(const std::string &name, std::span<const View> operands,
                  std::string_view label) {
  Result<const DeviceKernel *> kernel = find(name);
  if (!kernel)
    return kernel.takeError();
  if (auto aligned = checkAligned(operands, **kernel, label); !aligned)
    return aligned.takeError();
  std::vector<DeviceStart> starts;
  for (const DeviceKernel::Entry &entry : (*kernel)->entries)
    starts.push_back({*kernel,
                      &entry,
                      entry.grid.front(),
                      {operands.begin(), operands.end()},
                      {},
                      {}});
  return starts;
}

/// Checks the alignment of operands, because kernels use vector accesses.
Result<void> StartLister::checkAligned(std::span<const View> views,
                                       const DeviceKernel &kernel,
                                       std::string_view label) const {
  for (std::size_t i = 0; i < views.size(); ++i) {
    std::int64_t wanted = kernel.getAlignment(i);
    if (findAlignment(plan.buffers, views[i]) % wanted == 0)
      continue;
    return fail("kernel " + quote(kernel.name) + " of '" + std::string(label) +
                "' gets buffer " + quote(plan.buffers[views[i].buffer].name) +
                " at an address that is not a multiple of " +
                std::to_string(wanted));
  }
  return {};
}

Result<std::vector<DeviceStart>> StartLister::list(const Launch &launch,
                                                   std::string_view label) {
  const std::string &name = getKernel(launch, launch.segments.front());
  Result<const DeviceKernel *> kernel = find(name);
  if (!kernel)
    return kernel.takeError();
  if ((*kernel)->isMultiTensor())
    return listMultiTensor(launch, label);
  if (launch.segments.size() != 1)
    return fail("kernel " + quote(name) + " has " +
                std::to_string(launch.segments.size()) + " segments");
  return list(name, launch.segments.front().operands, label);
}

Result<void> StartLister::addOperands(const std::vector<View> &views,
                                      const DeviceKernel &kernel,
                                      std::string_view label,
                                      std::vector<std::int64_t> &row) const {
  if (auto aligned = checkAligned(views, kernel, label); !aligned)
    return aligned;
  for (const View &view : views) {
    if (!view.steps.empty())
      return fail("'" + std::string(label) +
                  "' is a multi-tensor launch inside of a loop");
    row.push_back(plan.buffers[view.buffer].locate(view.offset));
  }
  return {};
}

/// Notes that rows [begin, end) of the table have the offsets of `views` in
/// their first columns.
static void addTableOperands(DeviceStart &start, const std::vector<View> &views,
                             std::size_t begin, std::size_t end) {
  for (std::size_t column = 0; begin < end && column < views.size(); ++column)
    start.tableOperands.push_back({views[column], column, begin, end});
}

Result<std::vector<DeviceStart>>
StartLister::listMultiTensor(const Launch &launch, std::string_view label) {
  // One start for each kernel, in the order of their first segments.
  std::vector<DeviceStart> starts;
  std::map<std::string_view, std::size_t> places;
  std::int64_t all = 0;
  for (const Segment &segment : launch.segments) {
    const std::string &name = getKernel(launch, segment);
    auto [place, isNew] = places.try_emplace(name, starts.size());
    if (isNew) {
      Result<DeviceStart> first = start(name, 0);
      if (!first)
        return first.takeError();
      starts.push_back(*std::move(first));
    }
    DeviceStart &own = starts[place->second];
    std::vector<std::int64_t> row;
    if (auto added = addOperands(segment.operands, *own.kernel, label, row);
        !added)
      return added.takeError();
    all += segment.countBlocks(launch.grain);
    if (all > kMaxBlocks)
      return fail("'" + std::string(label) + "' has more than " +
                  std::to_string(kMaxBlocks) + " blocks of " +
                  std::to_string(launch.grain) + " items");
    auto firstRow = static_cast<std::size_t>(own.blocks);
    for (std::int64_t begin = segment.first; begin < segment.extent;
         begin += launch.grain) {
      own.table.insert(own.table.end(), row.begin(), row.end());
      own.table.push_back(begin);
      own.table.push_back(std::min(begin + launch.grain, segment.extent));
      ++own.blocks;
    }
    addTableOperands(own, segment.operands, firstRow,
                     static_cast<std::size_t>(own.blocks));
  }
  if (!launch.finish)
    return starts;
  Result<DeviceStart> finish = start(launch.kernel, 1);
  if (!finish)
    return finish.takeError();
  const std::vector<View> &finishOperands =
      launch.finishOperands.empty() ? launch.segments.front().operands
                                    : launch.finishOperands;
  if (auto added =
          addOperands(finishOperands, *finish->kernel, label, finish->table);
      !added)
    return added.takeError();
  addTableOperands(*finish, finishOperands, 0, 1);
  finish->table.push_back(all);
  starts.push_back(*std::move(finish));
  return starts;
}

Result<std::vector<DeviceStart>> binade::listStarts(const Plan &plan,
                                                    const Launch &launch,
                                                    std::string_view label,
                                                    const std::string &where) {
  return StartLister(plan, where).list(launch, label);
}

Result<std::vector<DeviceStart>>
binade::listStarts(const Plan &plan, const std::string &kernel,
                   std::span<const View> operands, const std::string &where) {
  return StartLister(plan, where).list(kernel, operands, kernel);
}

Result<std::vector<DeviceStart>> binade::listStarts(const Plan &plan,
                                                    const Record &record,
                                                    const std::string &where) {
  if (auto *launch = std::get_if<Launch>(&record.body))
    return listStarts(plan, *launch, record.label, where);
  return StartLister(plan, where)
      .list(*findKernelName(record), listKernelOperands(record), record.label);
}
