//===- Policy.h - policies, for people --------------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_POLICY_H
#define BINADE_TOOLS_BINADE_POLICY_H

/// Prints the name of each policy that is shipped, and what it is for.
void listPolicies();

#endif // BINADE_TOOLS_BINADE_POLICY_H
