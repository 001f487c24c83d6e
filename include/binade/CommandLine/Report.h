//===- Report.h - Reports about compiled steps ------------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_REPORT_H
#define BINADE_COMMANDLINE_REPORT_H

#include "binade/Runtime/Devices.h"
#include "binade/Runtime/Program.h"
#include <iosfwd>

namespace binade {

/// Prints model, policy, threads and instruction set in one line, then the
/// settings.
void printHeading(std::ostream &out, const Program &program);

/// Prints a line per device, and why no CUDA device was found.
void printDevices(std::ostream &out, const DeviceList &list);

/// Prints the memory at the step's peak by category.
void printLedger(std::ostream &out, const Program &program);

/// Prints kernels and library calls with the number of calls in a step and the
/// bytes of their operands, then the fallbacks.
void printRecords(std::ostream &out, const Plan &plan);

/// Prints the buckets of gradients that ranks exchange, and when each can
/// begin. Prints nothing for a step of one process.
void printExchange(std::ostream &out, const Plan &plan);

/// Prints the text of the policy and of the policies that it extends.
void printPolicy(std::ostream &out, const Plan &plan);

/// Prints the time of all steps by kernel and library call, the slowest first,
/// compared with the roofline.
void printProfile(std::ostream &out, const Profile &profile);

/// Returns the op of a record's label, which consists of op and node. Tables
/// have one row per op.
std::string getOpName(const std::string &label);

} // namespace binade

#endif // BINADE_COMMANDLINE_REPORT_H
