//===- PrintableTest.cpp - Escaping of text from files --------------------===//

#include "binade/Container/Printable.h"
#include "gtest/gtest.h"

using namespace binade;

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("h.0.attn"), "h.0.attn");
  EXPECT_EQ(printable("größe/重み"), "größe/重み");
  EXPECT_EQ(printable("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(printable(std::string_view("a\0b\r\n\t\x7f", 7)),
            "a\\x00b\\x0d\\n\\t\\x7f");
  EXPECT_EQ(printable("a\\n"), "a\\\\n");
  EXPECT_EQ(printable("\u202egnp.exe"), "\\u{202e}gnp.exe");
  EXPECT_EQ(printable("\u0085"), "\\u{85}");
  EXPECT_EQ(quote("it's"), "'it\\'s'");
}

TEST(Printable, GlobsAreQuotedForYaml) {
  EXPECT_EQ(quoteGlob("h.0/MatMul"), R"("h.0/MatMul")");
  EXPECT_EQ(quoteGlob("it's größe"), R"("it's größe")");
  EXPECT_EQ(quoteGlob(R"(a*b?[0]{c}\")"), R"("a\\*b\\?\\[0]\\{c}\\\\\"")");
  EXPECT_EQ(quoteGlob("a\nb\xff"), R"("a\u000ab?")");
}

TEST(Printable, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");          // overlong
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf"); // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80"); // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\U0001f600"), "\U0001f600");
}

TEST(Printable, LongNamesAreCutAtACharacter) {
  EXPECT_EQ(printable(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(printable(std::string(201, 'a')), std::string(197, 'a') + "...");
  std::string umlauts;
  for (int i = 0; i < 200; ++i)
    umlauts += "ö";
  std::string cut = printable(umlauts);
  EXPECT_EQ(cut.size(), 199u); // 98 characters of two bytes and "...".
  EXPECT_EQ(cut.substr(0, 196), umlauts.substr(0, 196));
  EXPECT_EQ(printable("\x1b\x1b", 7), "\\x1b...");
}

TEST(Printable, Utf8IsRecognised) {
  EXPECT_TRUE(isUtf8(""));
  EXPECT_TRUE(isUtf8("größe/重み"));
  EXPECT_FALSE(isUtf8("a\xff"));
  EXPECT_FALSE(isUtf8("\xed\xa0\x80"));
}
