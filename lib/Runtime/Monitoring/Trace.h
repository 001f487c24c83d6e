//===- Trace.h - A profile for Perfetto and chrome://tracing ----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_TRACE_H
#define BINADE_LIB_RUNTIME_MONITORING_TRACE_H

#include "Profiler.h"

namespace binade {

/// Chrome's trace format: an event for each run of the plan's records, in it
/// one for each call of a record. Slots of parallel loops are threads.
std::string formatTrace(const Profiler &profiler, const Profile &profile,
                        const Plan &plan, std::string_view device);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_TRACE_H
