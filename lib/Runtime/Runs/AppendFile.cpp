//===- AppendFile.cpp - Append-only files of a run ------------------------===//

#include "AppendFile.h"
#include "binade/Container/ExternalFile.h"
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>

using namespace binade;

Result<AppendFile> AppendFile::open(const std::string &path) {
  Descriptor descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor)
    return systemError(printable(path), "cannot open", errno);
  return AppendFile(std::move(descriptor), path);
}

Result<AppendFile>
AppendFile::open(const std::string &path,
                 const std::function<bool(const nlohmann::json &)> &stays) {
  // Reject pipes, because opening one would block until its other end is
  // opened.
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown))
    if (Result<ExternalFile> regular = openFile(path); !regular)
      return regular.takeError();
  Result<AppendFile> opened = open(path);
  if (!opened)
    return opened;
  std::ifstream file(path, std::ios::binary);
  std::size_t end = 0;
  for (std::string line; std::getline(file, line) && !file.eof();
       end += line.size() + 1) {
    Result<nlohmann::json> object = parseJson(line, printable(path));
    if (!object || !object->is_object() || !stays(*object))
      break;
  }
  if (Result<void> cut = opened->cut(end); !cut)
    return cut.takeError();
  return opened;
}

Result<void> AppendFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(printable(path), "cannot write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> AppendFile::cut(std::size_t size) {
  if (::ftruncate(descriptor.get(), static_cast<off_t>(size)) != 0)
    return systemError(printable(path), "cannot truncate", errno);
  return {};
}

Result<void> AppendFile::sync() {
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL)
    return systemError(printable(path), "cannot sync the file to disk", errno);
  return {};
}

Result<StepLines> StepLines::open(const std::string &path, std::int64_t step) {
  StepLines made(path);
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown))
    return made;
  Result<AppendFile> opened =
      AppendFile::open(path, [&](const nlohmann::json &object) {
        auto number = object.find("step");
        return number != object.end() && number->is_number_integer() &&
               *number <= step;
      });
  if (!opened)
    return opened.takeError();
  made.file = *std::move(opened);
  return made;
}

Result<void> StepLines::write(std::string_view lines) {
  if (!file) {
    Result<AppendFile> opened = AppendFile::open(path);
    if (!opened)
      return opened.takeError();
    file = *std::move(opened);
  }
  return file->write(lines);
}

Result<void>
binade::readJsonLines(const std::string &path,
                      const std::function<void(const nlohmann::json &)> &each) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown))
    return {};
  // Reject pipes, as above.
  if (Result<ExternalFile> regular = openFile(path); !regular)
    return regular.takeError();
  std::ifstream file(path, std::ios::binary);
  std::int64_t number = 1;
  for (std::string line; std::getline(file, line) && !file.eof(); ++number) {
    std::string where = printable(path) + ":" + std::to_string(number);
    Result<nlohmann::json> object = parseJson(line, where);
    if (!object)
      return object.takeError();
    try {
      each(*object);
    } catch (const std::exception &) {
      return Error{where, "is not a line that 'binade train' writes"};
    }
  }
  return {};
}
