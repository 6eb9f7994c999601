// SPDX-License-Identifier: Apache-2.0
// What the HTTP API answers.

#include <set>

#include "core/base64.h"
#include "core/digest.h"
#include "tests/server/http/http_fixture.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

// Where a document departs from a schema: the words that schemas.json uses.
void Validate(const Json& all, const Json& schema, const Json& value, const std::string& at) {
  if (schema.contains("$ref")) {
    const std::string name = schema["$ref"].get<std::string>().substr(21);
    return Validate(all, all.at(name), value, at);
  }
  if (!schema.contains("type")) return;
  const std::string type = schema["type"];
  const bool fits = type == "object"    ? value.is_object()
                    : type == "array"   ? value.is_array()
                    : type == "string"  ? value.is_string()
                    : type == "integer" ? value.is_number_integer()
                    : type == "number"  ? value.is_number()
                                        : value.is_boolean();
  EXPECT_TRUE(fits) << at << " must be " << type << ", is " << value.dump().substr(0, 100);
  if (!fits) return;
  if (schema.contains("enum")) {
    bool known = false;
    for (const Json& one : schema["enum"]) known = known || one == value;
    EXPECT_TRUE(known) << at << " is " << value;
  }
  if (type == "array" && schema.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      Validate(all, schema["items"], value[i], at + "[" + std::to_string(i) + "]");
    }
  }
  if (type != "object" || !schema.contains("properties")) return;
  for (const Json& name : schema["required"]) {
    EXPECT_TRUE(value.contains(name.get<std::string>())) << at << " lacks " << name;
  }
  for (const auto& [name, member] : value.items()) {
    if (!schema["properties"].contains(name)) {
      ADD_FAILURE() << at << " has the undescribed member " << name;
      continue;
    }
    Validate(all, schema["properties"][name], member, at + "." + name);
  }
}

TEST_F(HttpTest, AnswersFitTheirDescription) {
  StartHttp();
  LogIn();
  const std::string job = FinishedJob();
  const auto variant = GetJson("/api/v1/variants")["variants"][0];
  const Json description = GetJson("/api/v1/openapi.json");
  const Json& schemas = description["components"]["schemas"];
  int checked = 0;
  for (const auto& [pattern, methods] : description["paths"].items()) {
    if (!methods.contains("get")) continue;
    if (pattern.find("{sequence}") != std::string::npos) continue;  // No model was asked here.
    const Json& content = methods["get"]["responses"]["200"]["content"];
    if (!content.contains("application/json")) continue;
    std::string path = pattern;
    const auto fill = [&](const std::string& name, const std::string& with) {
      if (const auto at = path.find(name); at != std::string::npos)
        path.replace(at, name.size(), with);
    };
    fill("{job}", job);
    fill("{variant}", variant["id"]);
    fill("{digest}", variant["candidate_digest"]);
    if (path.ends_with("/facts")) path += "?ids=" + variant["id"].get<std::string>();
    Validate(schemas, content["application/json"]["schema"], GetJson(path), path);
    ++checked;
  }
  EXPECT_GE(checked, 15);
  const RawResponse error = Get("/api/v1/jobs/unknown");
  Validate(schemas, schemas["Error"], Json::parse(error.body), "error");
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(Json::parse(error.body)["error"]["field"], "job_id");
}

TEST_F(HttpTest, PagesHoldEveryRowOnceInOrder) {
  StartHttp();
  LogIn();
  StartWorker(HonestAnswer);
  std::set<std::string> jobs;
  for (int i = 0; i < 5; ++i) {
    const std::string id = Submit(Request("r" + std::to_string(i))).id();
    jobs.insert(id);
    Watch(id);
  }
  const auto pages = [&](const std::string& target, const std::string& list) {
    std::vector<Json> rows;
    std::string cursor;
    do {
      Json page = GetJson(target + "limit=2&cursor=" + cursor);
      for (const Json& row : page[list]) rows.push_back(row);
      cursor = page["next_cursor"];
      for (std::size_t at = 0; (at = cursor.find_first_of("+=", at)) != std::string::npos;
           at += 3) {
        cursor.replace(at, 1, cursor[at] == '+' ? "%2B" : "%3D");
      }
    } while (!cursor.empty());
    return rows;
  };
  std::set<std::string> seen;
  for (const Json& row : pages("/api/v1/jobs?", "jobs")) seen.insert(row["id"]);
  EXPECT_EQ(seen, jobs);
  const std::size_t total = GetJson("/api/v1/variants")["total"];
  ASSERT_GT(total, 4U);
  for (const std::size_t limit : {std::size_t{1}, total, total + 1}) {
    EXPECT_EQ(GetJson("/api/v1/variants?limit=" + std::to_string(limit))["total"], total) << limit;
  }
  for (const std::string field :
       {"accepted", "ratio", "ratio_declared", "roofline_fraction", "task", "target"}) {
    for (const std::string sign : {"", "-"}) {
      const std::vector<Json> rows =
          pages("/api/v1/variants?sort=" + sign + field + "&", "variants");
      std::set<std::string> ids;
      for (const Json& row : rows) ids.insert(row["id"]);
      EXPECT_EQ(ids.size(), total) << sign << field;
      EXPECT_EQ(rows.size(), total) << sign << field;
      if (field != "ratio") continue;
      for (std::size_t i = 1; i < rows.size(); ++i) {
        const double step = rows[i]["ratio"].get<double>() - rows[i - 1]["ratio"].get<double>();
        EXPECT_GE(sign.empty() ? step : -step, 0);
      }
    }
  }
  std::set<std::string> timed;
  const std::vector<Json> cases = pages("/api/v1/cases?", "cases");
  for (const Json& row : cases) {
    EXPECT_TRUE(
        timed.insert(row["variant_id"].get<std::string>() + row["case"].get<std::string>()).second);
  }
  EXPECT_EQ(cases.size(), GetJson("/api/v1/cases?limit=500")["cases"].size());
  EXPECT_GE(cases.size(), total);
  const std::string job = *jobs.begin();
  EXPECT_EQ(pages("/api/v1/jobs/" + job + "/candidates?", "candidates").size(),
            static_cast<std::size_t>(kCandidates));
}

TEST_F(HttpTest, SearchesAndFilters) {
  StartHttp();
  LogIn();
  const std::string job = FinishedJob();
  const std::size_t all = GetJson("/api/v1/variants")["total"];
  EXPECT_EQ(GetJson("/api/v1/variants?q=SCALE+cpu")["total"], all);
  EXPECT_EQ(GetJson("/api/v1/variants?q=nothing")["total"], 0);
  EXPECT_EQ(GetJson("/api/v1/variants?task=scale&target=cpu&job=" + job)["total"], all);
  EXPECT_EQ(GetJson("/api/v1/variants?target=gfx950")["total"], 0);
  EXPECT_EQ(GetJson("/api/v1/variants?status=accepted")["total"], 1);
  EXPECT_EQ(GetJson("/api/v1/jobs?state=queued")["jobs"].size(), 0U);
  EXPECT_EQ(GetJson("/api/v1/jobs?state=succeeded&task=scale")["jobs"].size(), 1U);
  EXPECT_EQ(GetJson("/api/v1/jobs/" + job + "/candidates?verdict=WIN")["candidates"].size(), all);
  for (const std::string bad :
       {"/api/v1/variants?sort=size", "/api/v1/variants?status=good", "/api/v1/variants?limit=0",
        "/api/v1/variants?limit=x", "/api/v1/variants?cursor=1", "/api/v1/variants?cursor=x:y",
        "/api/v1/variants?q=a+b+c+d", "/api/v1/variants?q=%ff", "/api/v1/variants?q=a%00",
        "/api/v1/variants?limit=99999999999999999999", "/api/v1/variants?limit=-1",
        "/api/v1/cases?limit=0", "/api/v1/cases?cursor=x", "/api/v1/cases?status=good",
        "/api/v1/jobs?cursor=abc", "/api/v1/jobs/x/candidates?verdict=GOOD",
        "/api/v1/variants?sort=task&cursor=!:v", "/api/v1/variants?sort=ratio&cursor=nan:v"}) {
    const RawResponse response = Get(bad);
    EXPECT_EQ(response.status, 400) << bad << response.body;
    EXPECT_TRUE(Json::parse(response.body)["error"].contains("field")) << bad;
  }
}

TEST_F(HttpTest, ShowsCandidatesAsATimeline) {
  StartHttp();
  LogIn();
  const std::string job = FinishedJob();
  const Json timeline = GetJson("/api/v1/jobs/" + job + "/timeline");
  ASSERT_EQ(timeline["rows"].size(), static_cast<std::size_t>(kCandidates));
  std::map<std::string, std::size_t> column;
  for (std::size_t i = 0; i < timeline["columns"].size(); ++i) column[timeline["columns"][i]] = i;
  int wins = 0;
  for (const Json& row : timeline["rows"]) {
    ASSERT_EQ(row.size(), timeline["columns"].size());
    EXPECT_LE(row[column["ratio_low"]], row[column["ratio"]]);
    if (row[column["verdict"]] != "WIN") continue;
    ++wins;
    EXPECT_GT(row[column["ratio_low"]], 1.4);
    EXPECT_LE(row[column["ratio"]], row[column["ratio_high"]]);
  }
  EXPECT_EQ(wins, 2);
  const Json rest = GetJson("/api/v1/jobs/" + job + "/timeline?after=6&limit=1");
  ASSERT_EQ(rest["rows"].size(), 1U);
  EXPECT_EQ(rest["rows"][0][column["ordinal"]], 7);
  EXPECT_EQ(rest["next_cursor"], "7");
}

TEST_F(HttpTest, UnchangedAnswersAreNotSentAgain) {
  StartHttp();
  LogIn();
  const std::string job = FinishedJob();
  for (const std::string& target : {std::string("/api/v1/jobs"), "/api/v1/jobs/" + job}) {
    const RawResponse first = Get(target);
    const std::string etag = first.Header("etag");
    ASSERT_FALSE(etag.empty());
    const RawResponse second = Get(target, {{"If-None-Match", etag}});
    EXPECT_EQ(second.status, 304);
    EXPECT_EQ(second.body, "");
    EXPECT_EQ(Get(target, {{"If-None-Match", "W/\"0\""}}).status, 200);
  }
  const RawResponse packed = Get("/api/v1/jobs/" + job + "/events", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(packed.Header("content-encoding"), "gzip");
  EXPECT_EQ(packed.body.substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(Get("/api/v1/jobs/" + job + "/events").Header("content-encoding"), "");
}

TEST_F(HttpTest, SubmitsCancelsAndResumes) {
  StartHttp();
  LogIn();
  Json body = {{"target", "cpu"},
               {"proposer", "tuner"},
               {"request_id", "h"},
               {"seed", "18446744073709551615"},
               {"budget", {{"candidates", 4}}}};
  for (const auto& [path, text] : ScaleTask(kCandidates))
    body["task_files"][path] = Base64Encode(text);
  const RawResponse submitted = Post("/api/v1/jobs", body.dump());
  ASSERT_EQ(submitted.status, 200) << submitted.body;
  const Json job = Json::parse(submitted.body)["job"];
  EXPECT_EQ(job["seed"], "18446744073709551615") << "not rounded";
  const std::string id = job["id"];
  EXPECT_EQ(Json::parse(Post("/api/v1/jobs", body.dump()).body)["job"]["id"], id);
  EXPECT_EQ(Json::parse(Post("/api/v1/jobs/" + id + "/cancel").body)["job"]["state"], "cancelled");
  EXPECT_EQ(Post("/api/v1/jobs/" + id + "/cancel").status, 409);
  const RawResponse resumed =
      Post("/api/v1/jobs/" + id + "/resume", R"({"budget": {"candidates": 6}})");
  ASSERT_EQ(resumed.status, 200) << resumed.body;
  EXPECT_EQ(Json::parse(resumed.body)["job"]["budget"]["candidates"], 6);
  const auto refused = [&](const char* field, const Json& value) {
    Json bad = body;
    bad[field] = value;
    bad["request_id"] = "";
    const RawResponse response = Post("/api/v1/jobs", bad.dump());
    EXPECT_EQ(response.status, 400) << field << response.body;
    EXPECT_NE(Json::parse(response.body)["error"]["message"].get<std::string>().find(field),
              std::string::npos)
        << response.body;
  };
  refused("task_files", Json::object());
  refused("task_files", {{"task.yaml", "%%%"}});
  refused("seed", -1);
  refused("seed", "18446744073709551616");
  refused("budget", {{"candidates", "many"}});
  refused("budget", {{"money", 1}});
  refused("target", 5);
  refused("target", "z80");
  refused("proposer", "oracle");
  refused("targt", "cpu");
  EXPECT_EQ(Post("/api/v1/jobs", "{").status, 400);
  EXPECT_EQ(Post("/api/v1/jobs/" + id + "/resume", R"({"budgt": {}})").status, 400);
  // Deep enough to overflow the stack of what would write it out again.
  const std::size_t deep = 2'000'000;
  const RawResponse nested = Post(
      "/api/v1/jobs", R"({"options": )" + std::string(deep, '[') + std::string(deep, ']') + "}");
  EXPECT_EQ(nested.status, 400);
  EXPECT_NE(nested.body.find("nest"), std::string::npos) << nested.body;
  // A large task arrives whole.
  Json large = body;
  large["request_id"] = "large";
  large["task_files"]["unused.bin"] = Base64Encode(std::string(3U << 20, 'x'));
  const RawResponse arrived = Post("/api/v1/jobs", large.dump());
  EXPECT_EQ(arrived.body.find("Bad Request"), std::string::npos) << arrived.body;
}

TEST_F(HttpTest, DescribesWhatIsSent) {
  StartHttp();
  LogIn();
  const Json description = GetJson("/api/v1/openapi.json");
  const Json& schemas = description["components"]["schemas"];
  for (const auto& [path, schema, example] :
       {std::tuple{"/api/v1/jobs", "SubmitRequest",
                   Json{{"task_files", {{"task.yaml", "YQ=="}}},
                        {"budget", {{"candidates", 4}, {"usd", 0.5}}},
                        {"seed", "1"}}},
        std::tuple{"/api/v1/jobs/{job}/resume", "ResumeRequest", Json{{"budget", Json::object()}}},
        std::tuple{"/api/v1/session", "LoginRequest", Json{{"token", "1"}}}}) {
    const Json& operation = description["paths"][path]["post"];
    EXPECT_EQ(operation["requestBody"]["content"]["application/json"]["schema"]["$ref"],
              std::string("#/components/schemas/") + schema);
    Validate(schemas, schemas[schema], example, path);
  }
  EXPECT_EQ(description["paths"]["/api/v1/jobs/{job}/cancel"]["post"]["parameters"][1]["name"],
            "X-Fettle-CSRF");
}

TEST_F(HttpTest, ExportsListsAndBundles) {
  StartHttp();
  LogIn();
  FinishedJob();
  const RawResponse csv = Get("/api/v1/variants.csv?status=accepted");
  EXPECT_EQ(csv.status, 200);
  EXPECT_NE(csv.Header("content-disposition").find("attachment"), std::string::npos);
  EXPECT_EQ(std::count(csv.body.begin(), csv.body.end(), '\n'), 2) << csv.body;
  const std::string task = GetJson(
      "/api/v1/variants/" + GetJson("/api/v1/variants")["variants"][0]["id"]
                                .get<std::string>())["variant"]["provenance"]["task"]["blob"];
  const RawResponse blob = Get("/api/v1/blobs/" + task);
  EXPECT_EQ(blob.status, 200);
  EXPECT_EQ(blob.Header("content-type"), "application/octet-stream");
  EXPECT_NE(blob.Header("content-disposition").find("attachment"), std::string::npos);
  EXPECT_EQ(Sha256Hex(blob.body), task);
  EXPECT_EQ(Get("/api/v1/blobs/" + std::string(64, '0')).status, 404);
  EXPECT_EQ(Get("/api/v1/blobs/..").status, 400);
  EXPECT_EQ(Get("/api/v1/bundle").status, 400);
  EXPECT_EQ(Get("/api/v1/bundle?task=nothing").status, 404);
}

}  // namespace
}  // namespace fettle
