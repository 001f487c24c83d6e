//===- JsonTest.cpp - JSON from untrusted files ---------------------------===//

#include "binade/Container/Json.h"
#include "gtest/gtest.h"

using namespace binade;

static std::string diagnose(std::string_view text, JsonLimits limits = {}) {
  Result<nlohmann::json> value = parseJson(text, "f.json", limits);
  return value ? "accepted" : render(value.error());
}

TEST(Json, ParsesValuesOfAllKinds) {
  auto value = parseJson(
      R"( {"a": [1, -2, 2.5, true, null, "x\u00e9"], "b": {"c": []}} )", "f");
  ASSERT_TRUE(value);
  EXPECT_EQ((*value)["a"][0].get<std::uint64_t>(), 1u);
  EXPECT_TRUE((*value)["a"][0].is_number_unsigned());
  EXPECT_EQ((*value)["a"][1].get<int>(), -2);
  EXPECT_EQ((*value)["a"][2].get<double>(), 2.5);
  EXPECT_TRUE((*value)["a"][4].is_null());
  EXPECT_EQ((*value)["a"][5].get<std::string>(), "xé");
  EXPECT_TRUE((*value)["b"]["c"].is_array());
  EXPECT_TRUE(parseJson("7", "f"));
}

TEST(Json, SyntaxErrorsNameTheByte) {
  std::string message = diagnose("{\"a\": }");
  EXPECT_TRUE(message.starts_with("f.json:byte 7: error: not valid JSON: "))
      << message;
  for (const char *text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "'a'",
                           "[1] 2",
                           "nul",
                           "[01]",
                           "[+1]",
                           "[.5]",
                           "[1.]",
                           "\"\n\"",
                           "\"\\x\"",
                           "// c\n1",
                           "[1}",
                           "\"\xff\"",
                           "\"\xed\xa0\x80\"",
                           "\"\\ud800\""})
    EXPECT_NE(diagnose(text).find("not valid JSON"), std::string::npos) << text;
  // Text after a NUL is not ignored.
  EXPECT_EQ(diagnose(std::string_view("{}\0{}", 5)),
            "f.json:byte 2: error: not valid JSON: NUL byte");
  EXPECT_NE(diagnose(std::string_view("1\0", 2)), "accepted");
}

TEST(Json, NonFiniteNumbersAreRejected) {
  for (const char *text : {"NaN", "[Infinity]", "-Infinity", "[1e999]", "inf"})
    EXPECT_NE(diagnose(text).find("error: not valid JSON"), std::string::npos)
        << text;
  EXPECT_EQ(diagnose("[1e308, -1e-400]"), "accepted");
}

TEST(Json, RepeatedKeysAreRejectedAtEveryLevel) {
  EXPECT_EQ(diagnose(R"({"a":1,"a":2})"),
            "f.json:byte 10: error: key 'a' is given twice");
  EXPECT_NE(diagnose(R"([{"b":{"a":1,"\u0061":2}}])").find("given twice"),
            std::string::npos);
  EXPECT_EQ(diagnose(R"([{"a":{"a":1}},{"a":1}])"), "accepted");
}

TEST(Json, DepthIsBounded) {
  auto nested = [](std::size_t n) {
    return std::string(n, '[') + std::string(n, ']');
  };
  EXPECT_EQ(diagnose(nested(64)), "accepted");
  EXPECT_EQ(diagnose(nested(65)),
            "f.json:byte 65: error: nested deeper than 64 levels");
  EXPECT_EQ(diagnose(std::string(1000000, '[')),
            "f.json:byte 65: error: nested deeper than 64 levels");
  std::string objects;
  for (int i = 0; i < 100000; ++i)
    objects += "{\"a\":";
  EXPECT_NE(diagnose(objects).find("deeper"), std::string::npos);
  EXPECT_EQ(diagnose("[[]]", {.depth = 2}), "accepted");
  EXPECT_NE(diagnose("[[]]", {.depth = 1}).find("deeper"), std::string::npos);
}

TEST(Json, SizeAndNumberOfValuesAreBounded) {
  EXPECT_EQ(diagnose("[1,2]", {.bytes = 4}),
            "f.json: error: JSON text has 5 bytes, the limit is 4");
  EXPECT_EQ(diagnose("[1,2]", {.values = 3}), "accepted");
  EXPECT_NE(diagnose("[1,2,3]", {.values = 3}).find("more than 3 values"),
            std::string::npos);
  EXPECT_NE(diagnose("[[],[],{}]", {.values = 3}).find("more than 3 values"),
            std::string::npos);
}

TEST(Json, AByteOrderMarkIsRejected) {
  EXPECT_NE(diagnose("\xef\xbb\xbf{}").find("byte order mark"),
            std::string::npos);
  EXPECT_NE(diagnose("\xff\xfe{\0").find("not valid JSON"), std::string::npos);
}

TEST(Json, TextOfTheFileIsEscapedInMessages) {
  std::string message = diagnose("{\"\\u001b[2J\":1,\"\\u001b[2J\":1}");
  EXPECT_NE(message.find("key '\\x1b[2J'"), std::string::npos) << message;
}
