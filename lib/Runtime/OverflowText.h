//===- OverflowText.h - What overflowed, in words ---------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_OVERFLOWTEXT_H
#define BINADE_LIB_RUNTIME_OVERFLOWTEXT_H

#include "binade/Runtime/Program.h"

namespace binade {

std::string describe(const Overflow &overflow);

/// Which precision would have helped.
std::string advise(const Overflow &overflow);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_OVERFLOWTEXT_H
