// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cli/format.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/text_diff.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

using nlohmann::json;

TEST(Format, NumbersAsAPersonReadsThem) {
  EXPECT_EQ(FormatRatio(1.3456), "1.346x");
  EXPECT_EQ(FormatRatio(0), "-");
  EXPECT_EQ(FormatInterval(1.3, 1.29, 1.31), "1.300x [1.290, 1.310]");
  EXPECT_EQ(FormatDuration(12), "12 ns");
  EXPECT_EQ(FormatDuration(12345), "12.3 us");
  EXPECT_EQ(FormatDuration(999.7e3), "1.00 ms");
  EXPECT_EQ(FormatDuration(2.5e9), "2.50 s");
  EXPECT_EQ(FormatDuration(900e9), "15.0 min");
  EXPECT_EQ(FormatRate(4.8e12, "B/s"), "4.80 TB/s");
  EXPECT_EQ(FormatRate(0, "B/s"), "-");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(141e9), "141 GB");
  EXPECT_EQ(FormatPercent(0.434), "43 %");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(FormatCount(100), "100");
  EXPECT_EQ(FormatAge(59), "59 s");
  EXPECT_EQ(FormatAge(3 * 86400), "3 d");
  EXPECT_EQ(FormatValues(json{{"BLOCK", 128}, {"VEC", 4}}), "BLOCK=128 VEC=4");
  EXPECT_EQ(FormatValuesText("not json"), "-");
}

TEST(Report, SaysWhatLookedForBugsAndWhatDidNotRun) {
  EXPECT_EQ(
      BugCheckLines(json{{"check_mode", "passed"},
                         {"sanitizers", {{"memcheck", "passed"}, {"racecheck", "not_run: no"}}}}),
      "  check mode: passed\n"
      "  compute-sanitizer memcheck: passed\n"
      "  compute-sanitizer racecheck: not_run: no\n");
  EXPECT_EQ(BugCheckLines(json::object()), "");
}

TEST(Terminal, ControlCharactersAndBadUtf8AreShownAsText) {
  EXPECT_EQ(Printable("a\x1b[31mb\x7f"), "a\\x1b[31mb\\x7f");
  EXPECT_EQ(Printable("line\n\tnext"), "line\n\tnext");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(Printable("\xff\xc3"), "??");
  EXPECT_EQ(Printable("gr\u00fc\u00df"), "gr\u00fc\u00df");
}

TEST(Terminal, FitCutsByColumns) {
  EXPECT_EQ(Fit("abcdef", 6), "abcdef");
  EXPECT_EQ(Fit("abcdefg", 6), "abcde\u2026");
  EXPECT_EQ(Fit("\u00e4\u00f6\u00fc\u00df", 3), "\u00e4\u00f6\u2026");
  EXPECT_EQ(Fit("abc", 0), "");
}

TEST(Terminal, LongLinesAreFoldedAtSpaces) {
  EXPECT_EQ(Folded("", 10), "");
  EXPECT_EQ(Folded("short\n  and  kept\n", 20), "short\n  and  kept\n");
  EXPECT_EQ(Folded("one two three four", 9), "one two\n    three\n    four");
  EXPECT_EQ(Folded("  one two three\nx", 9), "  one two\n      three\nx");
  EXPECT_EQ(Folded("a 0123456789abcdef b", 10), "a\n    0123456789abcdef\n    b")
      << "what is copied stays whole";
  EXPECT_EQ(Folded("0123456789abcdef", 10), "0123456789abcdef");
  EXPECT_EQ(Folded("\u00e4\u00f6 \u00fc\u00df", 5), "\u00e4\u00f6 \u00fc\u00df");
  EXPECT_EQ(Folded("ends in spaces     ", 14), "ends in spaces");
}

TEST(Terminal, ATableFitsItsWidth) {
  Table table({{"NAME"}, {"N", true}, {"TEXT"}});
  table.Row({"a", "1", std::string(200, 'x')});
  table.Row({"longer", "12345", "y"});
  const std::string text = table.Render(40);
  EXPECT_EQ(text,
            "NAME        N  TEXT\n"
            "a           1  xxxxxxxxxxxxxxxxxxxxxxxx\u2026\n"
            "longer  12345  y\n");
}

TEST(Terminal, StatusLineNeedsATerminalAndStaysBelowNotes) {
  std::string err;
  const auto sink = [&](std::string_view text) { err += text; };
  Terminal plain([](std::string_view) {}, sink, {.is_terminal = false});
  plain.Status("working");
  EXPECT_EQ(err, "");
  Terminal screen([](std::string_view) {}, sink, {.is_terminal = true, .width = 12});
  screen.Status("working hard");
  screen.Note("done");
  EXPECT_EQ(err, "\r\x1b[Kworking ha\u2026\r\x1b[Kdone\n\r\x1b[Kworking ha\u2026");
}

TEST(Terminal, BarsAreClamped) {
  EXPECT_EQ(Bar(0.5, 12), "[#####.....]");
  EXPECT_EQ(Bar(7, 6), "[####]");
  EXPECT_EQ(Bar(-1, 6), "[....]");
}

TEST(TextDiff, EqualTextsHaveNone) {
  EXPECT_EQ(UnifiedDiff("a", "x\ny\n", "b", "x\ny\n"), "");
  EXPECT_EQ(UnifiedDiff("a", "", "b", ""), "");
}

TEST(TextDiff, OneHunkWithContext) {
  EXPECT_EQ(UnifiedDiff("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
            "--- a\n+++ b\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(TextDiff, DistantChangesGiveTwoHunks) {
  std::string from, to;
  for (int i = 1; i <= 30; ++i) {
    from += std::to_string(i) + "\n";
    if (i != 3) to += std::to_string(i) + "\n";
    if (i == 25) to += "new\n";
  }
  EXPECT_EQ(UnifiedDiff("a", from, "b", to),
            "--- a\n+++ b\n@@ -1,6 +1,5 @@\n 1\n 2\n-3\n 4\n 5\n 6\n"
            "@@ -23,6 +22,7 @@\n 23\n 24\n 25\n+new\n 26\n 27\n 28\n");
}

TEST(TextDiff, FromAndToNothing) {
  EXPECT_EQ(UnifiedDiff("a", "", "b", "x\n"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
  EXPECT_EQ(UnifiedDiff("a", "x\n", "b", ""), "--- a\n+++ b\n@@ -1 +0,0 @@\n-x\n");
}

TEST(Report, VerdictNamesStageReasonCaseAndEvidence) {
  EXPECT_EQ(VerdictText({{"verdict", "INCORRECT"},
                         {"stage", "verify"},
                         {"reason_code", "tolerance"},
                         {"case", "checked/3"},
                         {"message", "y[7] is 3, expected 4"},
                         {"evidence", {{"index", 7}, {"text", "a\x1b"}}}}),
            "INCORRECT at verify (tolerance), case checked/3: y[7] is 3, expected 4\n"
            "  index: 7\n  text: a\\x1b");
}

TEST(Report, DiagnosticsNameThePlaceWhereItIsKnown) {
  EXPECT_EQ(
      DiagnosticsText(json::array(
          {{{"file", "k.cu"}, {"line", 3}, {"column", 7}, {"severity", "error"}, {"text", "no"}},
           {{"file", "k.cu"}, {"line", 0}, {"column", 0}, {"severity", "note"}, {"text", "so"}}})),
      "k.cu:3:7: error: no\nk.cu: note: so\n");
}

TEST(Report, MeasurementFitsEightyColumns) {
  const json measurement = {{"cases",
                             {{{"case", "timed/0"},
                               {"a_median_ns", 123456.0},
                               {"b_median_ns", 100000.0},
                               {"ratio", 1.23456},
                               {"ratio_low", 1.2},
                               {"ratio_high", 1.25},
                               {"bytes_per_s", 1.5e10},
                               {"flops_per_s", 0.0},
                               {"roofline_fraction", 0.61}}}}};
  EXPECT_EQ(MeasurementTable(measurement, 80),
            "CASE     BASELINE  CANDIDATE  SPEED-UP                 BYTES/S  FLOP/S  ROOF\n"
            "timed/0    123 us     100 us  1.235x [1.200, 1.250]  15.0 GB/s       -  61 %\n");
  EXPECT_EQ(MeasurementTable(json(), 80), "");
  const json hot = {
      {"hot", {{"timed/0", {{"baseline_ns", 2000}, {"candidate_ns", 1000}, {"ratio", 2.0}}}}}};
  const std::string text = MeasurementTable(measurement, 80, hot);
  EXPECT_TRUE(text.starts_with(MeasurementTable(measurement, 80))) << text;
  EXPECT_TRUE(
      text.ends_with("timed/0 with its data in the cache: 2.00 us to 1.00 us, 2.000x "
                     "(decides nothing)\n"))
      << text;
}

// What a hostile server sends would otherwise overflow the stack of whoever copies or prints it.
TEST(WireJson, NestingWithoutEndIsNoDocument) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_TRUE(ParseDocument(deep).is_null());
  EXPECT_TRUE(ParseDocument("{\"a\": " + deep + "}").is_null());
  v1::Candidate candidate;
  candidate.set_verdict_json(deep);
  EXPECT_TRUE(ToJson(candidate)["verdict"].is_null());
  EXPECT_EQ(ParseDocument("[[[1]]]"), json::parse("[[[1]]]"));
  EXPECT_EQ(FormatValuesText(deep), FormatValuesText("no JSON"));
}

}  // namespace
}  // namespace fettle
