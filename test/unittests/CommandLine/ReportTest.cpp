//===- ReportTest.cpp - Text output of binade -----------------------------===//

#include "binade/CommandLine/Report.h"
#include "gtest/gtest.h"
#include <sstream>

using namespace binade;

namespace {

std::string print(const DeviceList &list) {
  std::ostringstream out;
  printDevices(out, list);
  return out.str();
}

TEST(Report, TheOpNameOfALabelEndsAtTheFirstBlank) {
  EXPECT_EQ(getOpName("matmul layer 1/MatMul"), "matmul");
  EXPECT_EQ(getOpName("matmul"), "matmul");
  EXPECT_EQ(getOpName(""), "");
}

TEST(Report, EachDeviceIsPrintedOnALine) {
  DeviceList list;
  list.cores = 2;
  list.isaLevel = "x86-64-v3";
  list.memory = std::uint64_t(8) << 30;
  list.cudaVersion = 12040;
  CudaDevice device;
  device.name = "A Device";
  device.capability = {9, 0};
  device.bytes = std::uint64_t(80) << 30;
  device.bytesPerSecond = 3.352e12;
  device.multiprocessors = 132;
  device.clockHz = 1980000000;
  list.cuda.push_back(device);
  EXPECT_EQ(print(list),
            "cpu     2 cores, x86-64-v3, 8.0 GiB\n"
            "cuda:0  A Device, compute capability 9.0, 80.0 GiB at 3352 GB/s, "
            "132 multiprocessors at 1980 MHz, CUDA 12.4\n");
}

TEST(Report, TheReasonForAMissingCudaDeviceIsPrinted) {
  DeviceList list;
  list.cores = 1;
  list.cudaError = Error{"", "no driver"}.withNote("install one");
  std::string text = print(list);
  EXPECT_EQ(text.find("cpu     1 core, older than x86-64-v3: not supported, "),
            0u);
  EXPECT_NE(text.find("cuda    none: no driver\n        install one\n"),
            std::string::npos);
}

} // namespace
