//===- RunOrigin.cpp - Command and model of a run -------------------------===//

#include "binade/Runtime/RunOrigin.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Json.h"
#include <filesystem>

using namespace binade;
using nlohmann::json;
namespace fs = std::filesystem;

static constexpr std::uint64_t kMaxRunFile = 8 << 20;

std::vector<std::string> RunOrigin::getValues(std::string_view option) const {
  std::vector<std::string> values;
  std::string assigned = std::string(option) + "=";
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == option && i + 1 < words.size())
      values.push_back(words[++i]);
    else if (words[i].starts_with(assigned))
      values.push_back(words[i].substr(assigned.size()));
  return values;
}

/// Finds run.json in `path` or the nearest of the three directories above it,
/// which reach the run directory from the files of a checkpoint.
static std::optional<fs::path> findRunFile(const std::string &path) {
  std::error_code ignored;
  fs::path folder = fs::absolute(path, ignored).lexically_normal();
  for (int i = 0; i < 4; ++i, folder = folder.parent_path())
    if (fs::exists(folder / "run.json", ignored))
      return folder / "run.json";
  return std::nullopt;
}

Result<std::optional<RunOrigin>>
binade::findRunOrigin(const std::string &path) {
  std::optional<fs::path> found = findRunFile(path);
  if (!found)
    return std::optional<RunOrigin>();
  Result<ExternalFile> file = openFile(found->string());
  if (!file)
    return file.takeError();
  Result<std::string> text = readText(*file, kMaxRunFile);
  if (!text)
    return text.takeError();
  Result<json> object = parseJson(*text, file->getPath());
  if (!object)
    return object.takeError();
  try {
    const json &last = object->at("invocations").back();
    const json &files = last.at("files");
    if (!files.contains("model"))
      return std::optional<RunOrigin>(); // A run of several processes.
    const json &model = files.at("model");
    fs::path directory = last.at("directory").get<std::string>();
    return std::optional(
        RunOrigin{(directory / model.at("path").get<std::string>())
                      .lexically_normal()
                      .string(),
                  model.at("sha256"), last.at("command")});
  } catch (const json::exception &exception) {
    return Error{file->getPath(), "does not say how the run was trained: " +
                                      printable(exception.what())};
  }
}
