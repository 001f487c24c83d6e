//===- ThreadCount.cpp - Default number of threads ------------------------===//

#include "binade/Runtime/Library.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sched.h>
#include <set>

using namespace binade;

/// Returns the number of CPUs of the control group's quota; 0 without a quota.
static unsigned quotaCpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota, period;
  if (file >> quota >> period && quota > 0 && period > 0)
    return static_cast<unsigned>(quota / period + 0.999);
  return 0;
}

/// Returns a text that is the same for all hyper-threads of a core.
static std::string siblingsOf(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                     "/topology/thread_siblings_list");
  std::string siblings;
  std::getline(file, siblings);
  return siblings.empty() ? std::to_string(cpu) : siblings;
}

unsigned binade::defaultThreadCount() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof(mask), &mask) != 0)
    return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask))
      cores.insert(siblingsOf(cpu));
  unsigned count = std::max<unsigned>(1, static_cast<unsigned>(cores.size()));
  unsigned quota = quotaCpus();
  return quota == 0 ? count : std::min(count, std::max(quota, 1u));
}
