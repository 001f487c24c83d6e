//===- Version.cpp - The version that programs print ----------------------===//

#include "binade/CommandLine/Version.h"
#include "Commit.h"
#include "binade/Runtime/Devices.h"
#include "binade/Runtime/Library.h"
#include <CLI/CLI.hpp>

using namespace binade;

/// Returns the versions of the CUDA driver and of NVIDIA's libraries.
static std::string describeCuda() {
  DeviceList list = listDevices();
  if (list.cuda.empty())
    return "none (" + (list.cudaError ? list.cudaError->message : "no device") +
           ")";
  std::string text = "driver " + std::to_string(list.cudaVersion / 1000) + "." +
                     std::to_string(list.cudaVersion % 1000 / 10);
  auto add = [&](const char *library, const std::string &version) {
    text += std::string(", ") + library +
            (version.empty() ? " none" : " " + version);
  };
  add("cuBLASLt", cublasLtVersion());
  add("cuDNN", cudnnVersion());
  return text;
}

std::string binade::describeVersion(const std::string &more) {
  std::string commit = BINADE_COMMIT, oneDnn = oneDnnVersion();
  return "binade " BINADE_VERSION "\n" +
         (commit.empty() ? "" : "commit " + commit + "\n") + more + "oneDNN " +
         (oneDnn.empty() ? "none (no libdnnl.so.2 of version 2.6 or newer)"
                         : oneDnn) +
         "\nCUDA " + describeCuda();
}

void binade::replaceShortVersion(int argc, char **argv) {
  static char version[] = "--version";
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "-V")
      argv[i] = version;
}

void binade::addVersion(CLI::App &app, std::string more) {
  app.set_version_flag(
      "-V,--version", [more] { return describeVersion(more); },
      "Print the versions of Binade and its libraries and exit");
}
