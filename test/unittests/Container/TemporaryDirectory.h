//===- TemporaryDirectory.h - A directory for one test ----------*- C++ -*-===//

#ifndef BINADE_TEST_CONTAINER_TEMPORARYDIRECTORY_H
#define BINADE_TEST_CONTAINER_TEMPORARYDIRECTORY_H

#include "gtest/gtest.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace binade::test {

/// A directory that the destructor removes.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    path = ::testing::TempDir() + "binade-XXXXXX";
    if (!::mkdtemp(path.data()))
      throw std::runtime_error("cannot create " + path);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }

  const std::string &str() const { return path; }
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }

  /// Returns the names of all entries, including hidden ones.
  std::vector<std::string> list() const {
    std::vector<std::string> names;
    for (auto &entry : std::filesystem::directory_iterator(path))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

private:
  std::string path;
};

inline void writeFile(const std::string &path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace binade::test

#endif // BINADE_TEST_CONTAINER_TEMPORARYDIRECTORY_H
