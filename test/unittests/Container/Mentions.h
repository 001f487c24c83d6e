//===- Mentions.h - Checks a part of a message ------------------*- C++ -*-===//

#ifndef BINADE_TEST_CONTAINER_MENTIONS_H
#define BINADE_TEST_CONTAINER_MENTIONS_H

#include "gtest/gtest.h"
#include <string>

/// Expects `text` to contain `part`; prints it if it does not.
#define EXPECT_MENTIONS(text, part)                                            \
  EXPECT_PRED2(                                                                \
      [](const std::string &whole, const std::string &wanted) {                \
        return whole.find(wanted) != std::string::npos;                        \
      },                                                                       \
      text, part)

#endif // BINADE_TEST_CONTAINER_MENTIONS_H
