//===- Report.h - compiled steps shown to people ----------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_REPORT_H
#define BINADE_COMMANDLINE_REPORT_H

#include "binade/Runtime/Devices.h"
#include "binade/Runtime/Program.h"
#include <iosfwd>

namespace binade {

/// One line: model, policy, threads, instruction set.
void printHeading(std::ostream &out, const Program &program);

/// A line per device, and why there is none of CUDA.
void printDevices(std::ostream &out, const DeviceList &list);

/// Memory at the step's peak, by what it is for.
void printLedger(std::ostream &out, const Program &program);

/// Kernels and library calls: how often each is called in a step and how many
/// bytes its operands have.
void printRecords(std::ostream &out, const Plan &plan);

/// What the policy's file says, and those of the policies that it extends.
void printPolicy(std::ostream &out, const Plan &plan);

/// Where the time of all steps went, by kernel and library call, the slowest
/// first, and how near they come to what the machine can do.
void printProfile(std::ostream &out, const Profile &profile);

/// A record's label names op and node; calls of one op are one row of a table.
std::string getOpName(const std::string &label);

} // namespace binade

#endif // BINADE_COMMANDLINE_REPORT_H
