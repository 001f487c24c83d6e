//===- Expectations.cpp - Expected results in a file ----------------------===//

#include "Expectations.h"
#include "binade/Runtime/Profile.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;
using ::binade::Result;

void Expectations::store(std::string name, Bytes bytes) {
  memory.push_back(std::move(bytes));
  auto count = static_cast<int64_t>(memory.back().size());
  tensors.push_back({std::move(name), DType::U8, {count}, memory.back()});
}

void Expectations::begin(Bytes arena) {
  // Ranges of changed bytes are merged if there are only few bytes in between.
  constexpr size_t kFew = 64;
  llvm::json::Array places;
  Bytes changed;
  auto add = [&](size_t begin, size_t end) {
    places.push_back(llvm::json::Array{begin, end - begin});
    changed.insert(changed.end(), arena.begin() + begin, arena.begin() + end);
  };
  if (runs.empty())
    add(0, arena.size());
  for (size_t at = 0; !runs.empty() && at < arena.size(); ++at) {
    if (arena[at] == image[at])
      continue;
    size_t end = at + 1;
    for (size_t next = end; next < std::min(end + kFew, arena.size()); ++next)
      if (arena[next] != image[next])
        end = next + 1;
    add(at, end);
    at = end;
  }
  store("arena/" + std::to_string(runs.size()), std::move(changed));
  runs.push_back(std::move(places));
  image = std::move(arena);
}

void Expectations::allow(const RecordAccess &access, size_t index,
                         int64_t element, double exact, double bound) {
  auto &[low, high] = limits[index];
  low.resize(access.bytes / byteSize(access.dtype), NAN);
  high.resize(low.size(), NAN);
  low[element] = exact - bound;
  high[element] = exact + bound;
}

void Expectations::add(const Execution &execution,
                       const ::binade::RecordPlace &place) {
  std::string prefix = std::to_string(executions++) + "/";
  llvm::json::Array accesses;
  for (auto [index, access] : llvm::enumerate(execution.accesses)) {
    accesses.push_back(llvm::json::Object{
        {"offset", access.offset},
        {"bytes", access.bytes},
        {"dtype", llvm::StringRef(::binade::name(access.dtype))},
        {"written", access.isWritten},
        {"unread", isOnlyWritten(execution, index)}});
    if (!access.isWritten)
      continue;
    std::string name = prefix + std::to_string(index);
    const Bytes &after = execution.after[index];
    std::copy(after.begin(), after.end(), image.begin() + access.offset);
    store(name, after);
    // Segments of a launch may share results.
    auto found = llvm::find_if(limits, [&](const auto &limit) {
      const RecordAccess &other = execution.accesses[limit.first];
      return other.offset == access.offset && other.bytes == access.bytes;
    });
    if (found == limits.end() || !isFloat(access.dtype))
      continue;
    const auto &[low, high] = found->second;
    store(name + "/low", roundToward(access.dtype, low, /*up=*/true));
    store(name + "/high", roundToward(access.dtype, high, /*up=*/false));
  }
  limits.clear();
  records.push_back(llvm::json::Object{
      {"run", static_cast<int64_t>(runs.size()) - 1},
      {"list", llvm::StringRef(::binade::name(place.list))},
      {"label", llvm::json::fixUTF8(execution.record.label)},
      {"kind", llvm::StringRef(::binade::plan::getKind(execution.record))},
      {"path", llvm::json::Array(place.path)},
      {"iteration", llvm::json::Array(place.iteration)},
      {"accesses", std::move(accesses)}});
}

Result<void> Expectations::write(const std::string &path,
                                 const ::binade::Plan &plan,
                                 ArrayRef<uint32_t> statuses) const {
  llvm::json::Array words;
  for (uint32_t buffer : statuses)
    words.push_back(llvm::json::Array{plan.buffers[buffer].offset,
                                      plan.buffers[buffer].bytes});
  std::string text =
      llvm::formatv("{0}", llvm::json::Value(llvm::json::Object{
                               {"statuses", std::move(words)},
                               {"runs", llvm::json::Array(runs)},
                               {"records", llvm::json::Array(records)}}));
  std::vector<::binade::TensorBytes> all = tensors;
  all.push_back({"records",
                 DType::U8,
                 {static_cast<int64_t>(text.size())},
                 std::as_bytes(std::span(text))});
  return writeSafetensors(path, all);
}
