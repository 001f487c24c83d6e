//===- Table.h - tables for people ------------------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_TABLE_H
#define BINADE_TOOLS_BINADE_TABLE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

/// Prints columns as wide as what stands in them; the first `words` hold words,
/// the others numbers.
void printTable(llvm::raw_ostream &out,
                llvm::ArrayRef<std::vector<std::string>> table, unsigned words);

#endif // BINADE_TOOLS_BINADE_TABLE_H
