//===- Cores.cpp - Cores of the process and how busy they are -------------===//

#include "Cores.h"
#include "binade/Runtime/Library.h"
#include <algorithm>
#include <fstream>
#include <optional>
#include <sched.h>
#include <set>
#include <sstream>
#include <unistd.h>

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

static std::vector<int> findCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> found;
  if (::sched_getaffinity(0, sizeof(mask), &mask) != 0)
    return found;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask) && cores.insert(siblingsOf(cpu)).second)
      found.push_back(cpu);
  return found;
}

/// The cores before the first thread was pinned.
static std::optional<std::vector<int>> &coresBefore() {
  static std::optional<std::vector<int>> cores;
  return cores;
}

std::vector<int> binade::listCores() {
  return coresBefore() ? *coresBefore() : findCores();
}

void binade::pinThread(int cpu) {
  if (!coresBefore())
    coresBefore() = findCores();
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  ::sched_setaffinity(0, sizeof(mask), &mask);
}

unsigned binade::defaultThreadCount() {
  auto count = std::max(1u, static_cast<unsigned>(listCores().size()));
  unsigned quota = quotaCpus();
  return quota == 0 ? count : std::min(count, std::max(quota, 1u));
}

/// Returns the share of time that the hypervisor did not give to this machine,
/// since it started.
static double findStolenShare(std::string_view stat) {
  std::istringstream line{std::string(stat.substr(0, stat.find('\n')))};
  std::string name;
  line >> name;
  // user, nice, system, idle, iowait, irq, softirq, steal
  constexpr int kSteal = 7;
  double all = 0, stolen = 0;
  for (int i = 0; i <= kSteal; ++i) {
    double ticks = 0;
    line >> ticks;
    all += ticks;
    stolen = ticks;
  }
  return name == "cpu" && line && all > 0 ? stolen / all : 0;
}

bool binade::areCoresBusy(std::string_view stat, std::string_view load,
                          unsigned processors) {
  constexpr double kStolen = 0.02;
  if (findStolenShare(stat) > kStolen)
    return true;
  // The average of a minute, of 5 and of 15 minutes, and the threads that run
  // or could run now, this one included: "2.10 1.80 1.55 3/244 1234".
  std::istringstream line{std::string(load)};
  double minute = 0, other;
  unsigned running = 0;
  line >> minute >> other >> other >> running;
  return line && minute > processors && running > processors;
}

static std::string readFirstLine(const char *path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool binade::areCoresBusy() {
  long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  return areCoresBusy(readFirstLine("/proc/stat"),
                      readFirstLine("/proc/loadavg"),
                      static_cast<unsigned>(std::max(processors, 1l)));
}
