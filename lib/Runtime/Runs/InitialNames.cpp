//===- InitialNames.cpp - Names of weights in other files -----------------===//

#include "binade/Runtime/InitialNames.h"
#include "../Execution/Describe.h"
#include "ParameterStorage.h"
#include "binade/Container/JoinFirst.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include <algorithm>
#include <optional>

using namespace binade;
using namespace binade::plan;

static constexpr std::size_t kMaxListed = 10;

/// Whether a buffer belongs to delayed scaling, not to the model: it starts
/// with a constant, and a file of another policy lacks it.
static bool isOfScaling(std::string_view name) {
  return name.starts_with("amax/") || name.starts_with("amax_history/");
}

static bool isWeight(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || isNarrow(dtype);
}

/// Whether `info` can be the value of `tensor`.
static bool fits(const TensorInfo &info, const Tensor &tensor) {
  bool hasType = info.dtype == tensor.dtype ||
                 (isWeight(info.dtype) && isWeight(tensor.dtype));
  return hasType && std::ranges::equal(info.shape, tensor.shape);
}

//===----------------------------------------------------------------------===//
// Prefixes
//===----------------------------------------------------------------------===//

namespace {
/// A prefix that the names of a file have in addition to those of the program,
/// or that they lack.
struct Prefix {
  std::string text;
  bool isInFile;

  auto operator<=>(const Prefix &) const = default;
  /// Returns the name in the file of the program's `name`.
  std::optional<std::string> apply(std::string_view name) const {
    if (isInFile)
      return text + std::string(name);
    if (!name.starts_with(text))
      return std::nullopt;
    return std::string(name.substr(text.size()));
  }
};
} // namespace

/// Returns the part of `longer` before `name`, if it ends in `.` and `name`.
static std::string findPrefix(std::string_view longer, std::string_view name) {
  if (longer.size() <= name.size() + 1 || !longer.ends_with(name))
    return "";
  std::string_view prefix = longer.substr(0, longer.size() - name.size());
  return prefix.ends_with('.') ? std::string(prefix) : "";
}

/// Returns the prefix that gives most of the names in `missing` a tensor of
/// `unused`, unless another one gives as many.
static std::optional<Prefix>
findBestPrefix(const std::vector<std::string> &missing,
               const std::vector<std::string> &unused) {
  std::map<Prefix, std::size_t> counts;
  for (const std::string &name : missing)
    for (const std::string &other : unused) {
      if (std::string prefix = findPrefix(other, name); !prefix.empty())
        ++counts[{prefix, /*isInFile=*/true}];
      if (std::string prefix = findPrefix(name, other); !prefix.empty())
        ++counts[{prefix, /*isInFile=*/false}];
    }
  std::size_t most = 0, ties = 0;
  std::optional<Prefix> best;
  for (const auto &[prefix, count] : counts) {
    ties = count == most ? ties + 1 : count > most ? 1 : ties;
    if (count > most)
      best = prefix;
    most = std::max(most, count);
  }
  return ties == 1 ? best : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

namespace {
class Matcher {
public:
  Matcher(const Program &program, const Safetensors &file);

  void matchPrefix();
  void matchMetadata();
  void matchLast();
  bool hasMatches() const {
    return !found.names.empty() ||
           std::ranges::any_of(tensors, [&](const auto &tensor) {
             return file.find(tensor.first) != nullptr;
           });
  }

  InitialNames found;

private:
  void map(const std::string &name, const std::string &stored);

  const Safetensors &file;
  std::map<std::string, Tensor, std::less<>> tensors;
};
} // namespace

Matcher::Matcher(const Program &program, const Safetensors &file) : file(file) {
  for (Role role : {Role::Parameter, Role::Buffer})
    for (const Tensor &tensor : program.tensors(role)) {
      tensors.emplace(tensor.name, tensor);
      if (!file.find(tensor.name) && !isOfScaling(tensor.name))
        found.missing.emplace_back(tensor.name);
    }
  for (const TensorInfo &info : file.getTensors()) {
    if (isOfTraining(info.name))
      continue;
    found.hasWeights = true;
    if (!tensors.contains(info.name))
      found.unused.push_back(info.name);
  }
}

void Matcher::map(const std::string &name, const std::string &stored) {
  found.names[name] = stored;
  std::erase(found.missing, name);
  std::erase(found.unused, stored);
}

void Matcher::matchPrefix() {
  std::optional<Prefix> prefix = findBestPrefix(found.missing, found.unused);
  if (!prefix)
    return;
  std::size_t count = 0;
  for (const std::string &name : std::vector(found.missing))
    if (std::optional<std::string> stored = prefix->apply(name);
        stored && std::ranges::count(found.unused, *stored) > 0) {
      map(name, *stored);
      ++count;
    }
  found.notes.push_back(std::to_string(count) +
                        (count == 1 ? " name" : " names") +
                        (prefix->isInFile ? " of the file without the prefix "
                                          : " of the file with the prefix ") +
                        quote(prefix->text));
}

void Matcher::matchMetadata() {
  for (const std::string &name : std::vector(found.missing)) {
    auto stored = file.getMetadata().find(name);
    const TensorInfo *info = stored == file.getMetadata().end()
                                 ? nullptr
                                 : file.find(stored->second);
    if (!info || !fits(*info, tensors.at(name)))
      continue;
    map(name, info->name);
    found.notes.push_back(quote(name) + " is tied to " + quote(info->name) +
                          ", as the file's metadata say");
  }
}

/// Removes digits, so that names of the same parameter of different layers
/// become equal.
static std::string withoutDigits(std::string text) {
  std::erase_if(text,
                [](char letter) { return letter >= '0' && letter <= '9'; });
  return text;
}

void Matcher::matchLast() {
  if (found.missing.size() != 1 || found.unused.size() != 1)
    return;
  std::string name = found.missing.front(), stored = found.unused.front();
  const TensorInfo &info = *file.find(stored);
  if (!fits(info, tensors.at(name)) ||
      withoutDigits(name) == withoutDigits(stored))
    return;
  map(name, stored);
  found.notes.push_back(
      quote(name) + " takes " + quote(stored) + " " +
      describe(info.dtype, info.shape) +
      ", the only tensor left of the file for the only one left of the model");
}

InitialNames binade::matchInitialNames(const Program &program,
                                       const Safetensors &file) {
  Matcher matcher(program, file);
  if (!matcher.found.missing.empty()) {
    matcher.matchPrefix();
    matcher.matchMetadata();
    matcher.matchLast();
  }
  matcher.found.hasMatches = matcher.hasMatches();
  return std::move(matcher.found);
}

Error binade::refuseMissing(const Program &program, const Safetensors &file,
                            const InitialNames &found) {
  std::size_t all = program.tensors(Role::Parameter).size();
  for (const Tensor &tensor : program.tensors(Role::Buffer))
    all += !isOfScaling(tensor.name);
  std::vector<std::string> missing, unused;
  for (const std::string &name : found.missing) {
    std::optional<Tensor> tensor = program.find(Role::Parameter, name);
    if (!tensor)
      tensor = program.find(Role::Buffer, name);
    missing.push_back(quote(name) + " " +
                      describe(tensor->dtype, tensor->shape) +
                      suggest(name, found.unused));
  }
  for (const std::string &name : found.unused) {
    const TensorInfo &info = *file.find(name);
    unused.push_back(quote(name) + " " + describe(info.dtype, info.shape));
  }
  Error error{file.getPath(),
              "lacks " + std::to_string(missing.size()) + " of the model's " +
                  std::to_string(all) +
                  " parameters and buffers: " + joinFirst(missing, kMaxListed)};
  if (!unused.empty())
    error = std::move(error).withNote(
        "the model lacks " + std::to_string(unused.size()) +
        " tensors of the file: " + joinFirst(unused, kMaxListed));
  return std::move(error).withNote(
      "--init-partial trains tensors that the file lacks from their initial "
      "values in the model");
}
