//===- RegressionsTest.cpp - Replay inputs that failed before -------------===//
// Runs in each build, without a fuzzer: a target must return for each of its
// files, for each prefix of its sample and for changed bytes in the sample.
//===----------------------------------------------------------------------===//

#include "Targets.h"
#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>

using namespace binade;

namespace {
struct Target {
  const char *folder;
  void (*read)(fuzz::Bytes);
};

class Regressions : public testing::TestWithParam<Target> {
protected:
  void read(const std::string &bytes) {
    // An allocation of the exact size lets the sanitizers see reads past the
    // end.
    std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
    GetParam().read(copy);
  }

  /// The files of the target whose names begin with `prefix`.
  std::vector<std::string> load(const std::string &prefix) {
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator(
             std::string(BINADE_TEST_INPUTS) + "/" + GetParam().folder)) {
      if (!entry.path().filename().string().starts_with(prefix))
        continue;
      std::ifstream file(entry.path(), std::ios::binary);
      files.emplace_back(std::istreambuf_iterator<char>(file),
                         std::istreambuf_iterator<char>());
    }
    return files;
  }
};
} // namespace

TEST_P(Regressions, Files) {
  for (const std::string &bytes : load(""))
    read(bytes);
}

TEST_P(Regressions, Prefixes) {
  std::vector<std::string> samples = load("sample");
  ASSERT_EQ(samples.size(), 1u);
  for (std::size_t size = 0; size <= samples[0].size(); ++size)
    read(samples[0].substr(0, size));
}

TEST_P(Regressions, ChangedBytes) {
  for (std::string bytes : load("sample"))
    for (char &byte : bytes) {
      char old = byte;
      for (int other : {0, 0xff, old ^ 1, old ^ 0x80}) {
        byte = static_cast<char>(other);
        read(bytes);
      }
      byte = old;
    }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Regressions,
                         testing::Values(Target{"convert", fuzz::convertModel},
                                         Target{"module", fuzz::readModule},
                                         Target{"numpy", fuzz::readNumpy},
                                         Target{"onnx", fuzz::readOnnx},
                                         Target{"plan", fuzz::readPlan},
                                         Target{"policy", fuzz::readPolicy},
                                         Target{"safetensors",
                                                fuzz::readSafetensors}),
                         [](const testing::TestParamInfo<Target> &info) {
                           return std::string(info.param.folder);
                         });
