//===- Fallback.cpp - Deviation of a target from a decision ---------------===//

#include "binade/Container/Fallback.h"

using namespace binade;

std::string Fallback::describe() const {
  std::string text = keepsFormats()
                         ? computed + " in pieces"
                         : decided + " decided, " + computed + " computed";
  text += ": " + reason;
  if (!nearest.empty())
    text += "; " + nearest + " would do";
  return text;
}
