//===- Trace.h - A profile for Perfetto and chrome://tracing ----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_TRACE_H
#define BINADE_LIB_RUNTIME_MONITORING_TRACE_H

#include "Profiler.h"

namespace binade {

/// Returns a profile in Chrome's trace format: an event for each run of a
/// record list that contains one for each execution of a record. Slots of
/// parallel loops are shown as threads.
std::string formatTrace(const Profiler &profiler, const Profile &profile,
                        const Plan &plan, std::string_view device);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_TRACE_H
