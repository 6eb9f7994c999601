// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "server/http/api_parts.h"
#include "server/http/archive.h"
#include "server/http/assets.h"
#include "server/http/event_stream.h"
#include "server/http/gzip.h"
#include "server/http/http_json.h"
#include "server/http/message.h"

namespace fettle {
namespace {

TEST(HttpMessage, ParsesTargets) {
  HttpRequest request;
  ASSERT_TRUE(ParseTarget("/a%20b/c?x=1&y=%26+z&x=2&empty&=v", request));
  EXPECT_EQ(request.path, "/a b/c");
  EXPECT_EQ(request.Query("x"), "1");
  EXPECT_EQ(request.Query("y"), "& z");
  EXPECT_EQ(request.Query("empty"), "");
  EXPECT_EQ(request.query.size(), 5U);
  for (const char* bad : {"", "a", "/%", "/%4", "/%g0", "/?x=%", "/%00", "*"}) {
    HttpRequest other;
    EXPECT_FALSE(ParseTarget(bad, other)) << bad;
  }
}

TEST(HttpMessage, FindsCookies) {
  EXPECT_EQ(CookieValue("a=1; b=2;c=3", "b"), "2");
  EXPECT_EQ(CookieValue("a=1; b=2;c=3", "c"), "3");
  EXPECT_EQ(CookieValue("ab=1", "b"), "");
  EXPECT_EQ(CookieValue("b", "b"), "");
  EXPECT_EQ(CookieValue("", "b"), "");
}

TEST(HttpMessage, KnowsWhoTakesGzip) {
  const auto accepts = [](const std::string& header) {
    HttpRequest request;
    request.headers["accept-encoding"] = header;
    return request.AcceptsGzip();
  };
  for (const char* yes : {"gzip", "br, gzip", "deflate;q=0.5,gzip;q=0.1", "*", "br;q=0, *;q=0.5"}) {
    EXPECT_TRUE(accepts(yes)) << yes;
  }
  for (const char* no : {"", "br", "gzip;q=0", "gzip; q=0.000", "x-gzipped", "gzip;q=0, *"}) {
    EXPECT_FALSE(accepts(no)) << no;
  }
}

TEST(HttpMessage, FindsEntityTagsInLists) {
  const auto has = [](const std::string& header) {
    HttpRequest request;
    request.headers["if-none-match"] = header;
    return request.HasEtag("W/\"a\"");
  };
  for (const char* yes : {"W/\"a\"", "\"a\"", "\"b\", W/\"a\"", "*"}) EXPECT_TRUE(has(yes)) << yes;
  for (const char* no : {"", "a", "W/\"b\"", "W/\"aa\""}) EXPECT_FALSE(has(no)) << no;
}

TEST(ApiParts, CursorsComeBackAsTheyWere) {
  SortCursor cursor;
  cursor.id = "v1";
  cursor.time_ns = 1'790'000'000'123'456'789;
  EXPECT_EQ(
      ParseCursor(FormatCursor(cursor, VariantSort::kAccepted), VariantSort::kAccepted)->time_ns,
      cursor.time_ns);
  cursor.number = 1.0 / 3;
  EXPECT_EQ(ParseCursor(FormatCursor(cursor, VariantSort::kSpeedUp), VariantSort::kSpeedUp)->number,
            cursor.number);
  cursor.text = "a:b\"<ü>";
  const auto back = ParseCursor(FormatCursor(cursor, VariantSort::kTask), VariantSort::kTask);
  EXPECT_EQ(back->text, cursor.text);
  EXPECT_EQ(back->id, "v1");
}

TEST(ApiParts, CsvCellsAreNeverFormulas) {
  EXPECT_EQ(CsvCell("plain"), "plain");
  EXPECT_EQ(CsvCell("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvCell("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(CsvCell("=1+1"), "\"'=1+1\"");
  EXPECT_EQ(CsvCell("@x"), "\"'@x\"");
  EXPECT_EQ(CsvCell("-2.5"), "-2.5");
  EXPECT_EQ(CsvCell("-x"), "\"'-x\"");
}

TEST(ApiParts, AttachmentNamesAreHarmless) {
  HttpResponse response;
  AttachAs(response, "a\"\r\nb/ü.tar.gz");
  EXPECT_EQ(response.headers[0].second, "attachment; filename=\"a___b___.tar.gz\"");
}

TEST(HttpJson, SeedsBecomeTextAtAnyDepth) {
  const nlohmann::json in = {{"seed", 18446744073709551615ULL},
                             {"a", {{{"seeds", {1, 2}}}}},
                             {"time_ns", 1'790'000'000'123'456'789}};
  const nlohmann::json out = SeedsAsText(in);
  EXPECT_EQ(out["seed"], "18446744073709551615");
  EXPECT_EQ(out["a"][0]["seeds"], (nlohmann::json{"1", "2"}));
  EXPECT_EQ(out["time_ns"], in["time_ns"]);
}

TEST(HttpJson, ErrorsNameTheirField) {
  const auto error = [](const absl::Status& status) {
    return nlohmann::json::parse(ErrorResponse(status).body)["error"];
  };
  EXPECT_EQ(error(absl::InvalidArgumentError("budget.usd: must be"))["field"], "budget.usd");
  EXPECT_FALSE(error(absl::InternalError("open /x: no")).contains("field"));
  EXPECT_EQ(error(absl::InternalError("bad \xff text"))["message"], "bad ? text");
  EXPECT_EQ(ErrorResponse(absl::ResourceExhaustedError("x")).status, 429);
  EXPECT_EQ(ErrorResponse(absl::InternalError("x")).status, 500);
}

TEST(ServerSentEvents, HostileTextStaysInItsField) {
  const std::string text =
      ServerSentEvent(7, "note", {{"text", "a\n\nevent: end\ndata: {}\n\n\r\xff"}});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_EQ(text.substr(0, 12), "id: 7\nevent:");
}

TEST(Archive, TheSameFilesGiveTheSameBytes) {
  const std::map<std::string, std::string> files = {{"a.txt", "hello"},
                                                    {"b/c", std::string(5000, 'x')}};
  const auto first = TarGz(files, "top");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, *TarGz(files, "top"));
  EXPECT_EQ(first->substr(0, 2), "\x1f\x8b");
}

TEST(Assets, ServesFilesAndPages) {
  const std::string page = Gzip("<html>page</html>");
  const std::string script = Gzip("script();");
  const nlohmann::json index = {{"files",
                                 {{{"path", "/index.html"},
                                   {"type", "text/html"},
                                   {"etag", "\"1\""},
                                   {"offset", 0},
                                   {"size", page.size()}},
                                  {{"path", "/assets/a-1.js"},
                                   {"type", "text/javascript"},
                                   {"etag", "\"2\""},
                                   {"immutable", true},
                                   {"offset", page.size()},
                                   {"size", script.size()}}}}};
  const std::string pack = index.dump() + "\n" + page + script;
  const Assets assets(pack);
  const auto serve = [&](const std::string& path, std::map<std::string, std::string> headers = {}) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.headers = std::move(headers);
    return assets.Serve(request);
  };
  EXPECT_EQ(serve("/")->body, "<html>page</html>");
  EXPECT_EQ(serve("/jobs/j1")->body, "<html>page</html>");
  EXPECT_EQ(serve("/assets/a-1.js")->body, "script();");
  EXPECT_EQ(serve("/assets/a-1.js", {{"accept-encoding", "gzip"}})->body, script);
  EXPECT_EQ(serve("/jobs", {{"if-none-match", "\"1\""}})->status, 304);
  EXPECT_FALSE(serve("/assets/missing").has_value());
  EXPECT_FALSE(serve("/favicon.ico").has_value());
  EXPECT_TRUE(Assets("").empty());
  EXPECT_TRUE(Assets("{}\n").empty());
}

}  // namespace
}  // namespace fettle
