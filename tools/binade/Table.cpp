//===- Table.cpp - Tables for people --------------------------------------===//

#include "Table.h"
#include "llvm/Support/Format.h"

void printTable(llvm::raw_ostream &out,
                llvm::ArrayRef<std::vector<std::string>> table,
                unsigned words) {
  std::vector<std::size_t> widths(table.front().size());
  for (const auto &line : table)
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  for (const auto &line : table) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (std::size_t i = 0; i < line.size(); ++i)
      stream << (i ? "  " : "")
             << (i < words ? llvm::left_justify(line[i], widths[i])
                           : llvm::right_justify(line[i], widths[i]));
    out << llvm::StringRef(text).rtrim() << "\n";
  }
}
