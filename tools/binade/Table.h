//===- Table.h - tables for people ------------------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_TABLE_H
#define BINADE_TOOLS_BINADE_TABLE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

/// Prints a table with columns as wide as their longest entry. The first
/// `words` columns hold words, the others numbers.
void printTable(llvm::raw_ostream &out,
                llvm::ArrayRef<std::vector<std::string>> table, unsigned words);

#endif // BINADE_TOOLS_BINADE_TABLE_H
