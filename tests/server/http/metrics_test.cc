// SPDX-License-Identifier: Apache-2.0
// What Prometheus reads, and that the sample dashboard and alerts ask for nothing else.

#include "server/http/metrics.h"

#include <map>
#include <regex>
#include <set>

#include "store/files.h"
#include "tests/server/http/http_fixture.h"

namespace fettle {
namespace {

// Values by series, after checking every line's form.
std::map<std::string, double> Parse(const std::string& text) {
  static const std::regex kSample(
      R"(([a-z_]+)(\{[a-z_]+="([^"\\\n]|\\.)*"(,[a-z_]+="([^"\\\n]|\\.)*")*\})? (\S+))");
  static const std::regex kComment(R"(# (HELP|TYPE) ([a-z_]+) .+)");
  std::map<std::string, double> series;
  std::set<std::string> families;
  std::string family;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_NE(end, std::string::npos) << "the last line ends too";
    const std::string line = text.substr(at, end - at);
    at = end == std::string::npos ? text.size() : end + 1;
    std::smatch match;
    if (std::regex_match(line, match, kComment)) {
      if (match[1] == "HELP") {
        EXPECT_TRUE(families.insert(match[2]).second) << match[2] << " is there twice";
      }
      family = match[2];
      continue;
    }
    EXPECT_TRUE(std::regex_match(line, match, kSample)) << line;
    if (match.empty()) continue;
    EXPECT_EQ(match[1], family) << line;
    const std::string key = match[1].str() + match[2].str();
    EXPECT_FALSE(series.contains(key)) << key << " is there twice";
    series[key] = std::stod(match[match.size() - 1]);
  }
  return series;
}

class MetricsTest : public HttpTest {
 protected:
  std::map<std::string, double> Scrape() {
    const RawResponse response = Get("/metrics");
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.Header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    return Parse(response.body);
  }
};

TEST_F(MetricsTest, CountsAJobFromSubmitToVariant) {
  StartHttp();
  LogIn();
  auto before = Scrape();
  EXPECT_EQ(before["fettle_jobs{state=\"succeeded\"}"], 0);
  EXPECT_EQ(before["fettle_workers{state=\"idle\"}"], 0);
  const std::string id = FinishedJob();
  const v1::Job job = GetJob(id);
  auto after = Scrape();
  EXPECT_EQ(after["fettle_jobs{state=\"succeeded\"}"], 1);
  EXPECT_EQ(after["fettle_candidates_total"], static_cast<double>(job.candidate_count()));
  EXPECT_EQ(after["fettle_verdicts_total{verdict=\"WIN\"}"],
            static_cast<double>(job.verdict_counts().at("WIN")));
  EXPECT_GT(after["fettle_leases_total"], 0);
  EXPECT_EQ(after["fettle_lease_ends_total{how=\"result\"}"], after["fettle_leases_total"]);
  EXPECT_EQ(after["fettle_units{state=\"leased\"}"], 0);
  const std::string confirmed =
      R"(fettle_evaluations_total{kind="confirm",device_model="fake cpu",host="fake"})";
  EXPECT_GT(after[confirmed], 0);
  EXPECT_GE(after["fettle_workers{state=\"idle\"}"] + after["fettle_workers{state=\"busy\"}"], 1);
  // What was counted is not counted again.
  const auto again = Scrape();
  for (const auto& [series, value] : after) {
    if (!series.starts_with("fettle_evaluations") && !series.starts_with("fettle_compiles"))
      continue;
    EXPECT_EQ(again.at(series), value) << series;
  }
}

TEST_F(MetricsTest, NeedsTheRoleReadAndKnowsItsName) {
  StartHttp();
  EXPECT_EQ(RawRequest(port_, "GET", "/metrics").status, 401);
  EXPECT_EQ(RawRequest(port_, "POST", "/metrics").status, 405);
  EXPECT_EQ(
      RawRequest(port_, "GET", "/metrics", {{"Authorization", "Bearer " + Token("worker")}}).status,
      403);
  EXPECT_EQ(RawRequest(port_, "GET", "/metrics", {{"Authorization", "Bearer " + Token("operate")}})
                .status,
            200);
}

TEST_F(MetricsTest, NamesOfDevicesCannotBreakALine) {
  StartHttp();
  LogIn();
  FakeWorkerOptions options;
  options.id = "w\"1\\\n";
  options.states = {nlohmann::json{
      {"devices", {{{"id", "cpu"}, {"model", "a \"b\"\nc\\"}, {"health", "suspect"}}}}}
                        .dump()};
  StartWorker(HonestAnswer, options);
  const std::string id = Submit(Request("r")).id();
  Watch(id);
  bool found = false;
  for (const auto& [series, value] : Scrape()) {
    if (!series.starts_with("fettle_device_healthy")) continue;
    found = true;
    EXPECT_EQ(value, 0);
    EXPECT_NE(series.find(R"(device_model="a \"b\"\nc\\")"), std::string::npos) << series;
  }
  EXPECT_TRUE(found);
}

// Names that a file asks for.
std::set<std::string> Asked(const std::string& text) {
  static const std::regex kName("(fettle|process)_[a-z_]+");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), kName), end; at != end; ++at) {
    names.insert(at->str());
  }
  return names;
}

TEST_F(MetricsTest, DashboardAlertsAndDocumentationNameWhatThereIs) {
  StartHttp();
  LogIn();
  const std::string text = Get("/metrics").body;
  std::set<std::string> known;
  static const std::regex kType("# TYPE ([a-z_]+) ");
  for (std::sregex_iterator at(text.begin(), text.end(), kType), end; at != end; ++at) {
    known.insert((*at)[1]);
  }
  EXPECT_GE(known.size(), 20U);
  const std::string root = FETTLE_SOURCE_DIR;
  const std::string grafana = ReadWholeFile(root + "/deploy/metrics/grafana.json").value();
  const nlohmann::json dashboard = nlohmann::json::parse(grafana);
  std::string expressions;
  for (const auto& panel : dashboard["panels"]) {
    for (const auto& target : panel["targets"]) {
      expressions += target["expr"].get<std::string>() + "\n";
    }
  }
  const std::string alerts = ReadWholeFile(root + "/deploy/metrics/alerts.yml").value();
  const std::string page = ReadWholeFile(root + "/docs/metrics.md").value();
  for (const std::string& from : {expressions, alerts, page}) {
    EXPECT_FALSE(Asked(from).empty());
    for (const std::string& name : Asked(from)) EXPECT_TRUE(known.contains(name)) << name;
  }
  for (const std::string& name : known) {
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name << " is not documented";
  }
}

TEST(MetricsLabelTest, IsEscaped) {
  EXPECT_EQ(EscapeLabel("a\\b\"c\nd"), R"(a\\b\"c\nd)");
  EXPECT_EQ(EscapeLabel("\xFF"), "?");
}

}  // namespace
}  // namespace fettle
