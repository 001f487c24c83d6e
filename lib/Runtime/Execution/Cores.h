//===- Cores.h - Cores of the process and how busy they are -----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_CORES_H
#define BINADE_LIB_RUNTIME_EXECUTION_CORES_H

#include <string_view>
#include <vector>

namespace binade {

/// Returns one CPU of each physical core that this process may use. Threads
/// that were pinned do not count as a restriction.
std::vector<int> listCores();

/// Binds the calling thread to `cpu`. From the first call on, `listCores`
/// returns what it returned before.
void pinThread(int cpu);

/// Whether idle threads should sleep: the hypervisor runs other machines
/// on these processors, or other processes use them all. A thread that spins
/// would take time from the thread it waits for. `stat` and `load` are the
/// texts of /proc/stat and /proc/loadavg.
bool areCoresBusy(std::string_view stat, std::string_view load,
                  unsigned processors);
bool areCoresBusy();

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_CORES_H
