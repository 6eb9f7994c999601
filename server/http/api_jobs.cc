// SPDX-License-Identifier: Apache-2.0
// Calls about jobs, their events and candidates.

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base64.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/work_unit.h"
#include "proto/wire_json.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/http/api.h"
#include "server/http/api_parts.h"
#include "server/http/http_json.h"
#include "server/limits.h"
#include "store/agent_call_store.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr int kMaxTimelinePage = 5'000;
// A task folder in base64, in JSON.
constexpr std::size_t kSubmitBodyBytes = limits::kMaxTaskBlobBytes / 3 * 4 + (1U << 20);

// `known` are the members that the call reads: a misspelt one is not passed over.
absl::StatusOr<Json> ParseBody(const ApiRequest& request,
                               std::initializer_list<std::string_view> known) {
  FETTLE_ASSIGN_OR_RETURN(Json body, ParseJsonBody(request.http.body));
  for (const auto& [name, value] : body.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return errors::BadField("body", fmt::format("has no member {}", CutText(name, 100)));
    }
  }
  return body;
}

absl::StatusOr<std::string> TextField(const Json& body, const char* name,
                                      const std::string& otherwise) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return otherwise;
  if (!found->is_string()) return errors::BadField(name, "must be text");
  return found->get<std::string>();
}

absl::StatusOr<std::uint64_t> SeedField(const Json& body) {
  const auto found = body.find("seed");
  if (found == body.end() || found->is_null()) return 0;
  if (found->is_number_unsigned()) return found->get<std::uint64_t>();
  if (found->is_string()) {
    const std::string text = found->get<std::string>();
    std::uint64_t seed = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (error == std::errc() && rest == text.data() + text.size()) return seed;
  }
  return errors::BadField("seed", "must be a number from 0 to 2^64 - 1, as text or as a number");
}

absl::StatusOr<v1::Budget> BudgetField(const Json& body) {
  v1::Budget budget;
  const auto found = body.find("budget");
  if (found == body.end() || found->is_null()) return budget;
  if (!found->is_object()) return errors::BadField("budget", "must be an object");
  for (const auto& [name, value] : found->items()) {
    const std::string field = "budget." + name;
    if (name == "usd") {
      if (!value.is_number()) return errors::BadField(field, "must be a number");
      budget.set_usd(value.get<double>());
      continue;
    }
    if (!value.is_number_integer()) return errors::BadField(field, "must be a whole number");
    const auto amount = value.get<std::int64_t>();
    if (name == "candidates") {
      budget.set_candidates(amount);
    } else if (name == "wall_ms") {
      budget.set_wall_ms(amount);
    } else if (name == "device_ms") {
      budget.set_device_ms(amount);
    } else if (name == "tokens") {
      budget.set_tokens(amount);
    } else {
      return errors::BadField(field,
                              "not known; there are candidates, wall_ms, device_ms, tokens, usd");
    }
  }
  return budget;
}

absl::StatusOr<std::string> TaskField(const Json& body) {
  const auto found = body.find("task_files");
  if (found == body.end() || !found->is_object() || found->empty()) {
    return errors::BadField("task_files", "must be an object of file names and base64 contents");
  }
  TaskFiles files;
  for (const auto& [path, content] : found->items()) {
    absl::StatusOr<std::string> bytes = content.is_string()
                                            ? Base64Decode(content.get<std::string>())
                                            : absl::InvalidArgumentError("not text");
    if (!bytes.ok()) {
      return errors::BadField("task_files", fmt::format("{} is not base64", CutText(path, 100)));
    }
    files[path] = *std::move(bytes);
  }
  return PackTaskFiles(files);
}

absl::StatusOr<HttpResponse> Answer(const absl::StatusOr<v1::Job>& job) {
  FETTLE_RETURN_IF_ERROR(job.status());
  return JsonResponse({{"job", SeedsAsText(ToJson(*job))}});
}

absl::StatusOr<HttpResponse> ListJobs(const OptimizerCalls& calls, const ApiRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const int limit,
                          QueryLimit(request.http, limits::kDefaultPageSize, limits::kMaxPageSize));
  FETTLE_ASSIGN_OR_RETURN(const auto before, ParseTimeToken(request.http.Query("cursor")));
  const JobSearch search{request.http.Query("state"), request.http.Query("task"),
                         request.http.Query("target")};
  std::vector<JobRow> rows;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, SearchJobs(db, search, before.first, before.second, limit));
    return absl::OkStatus();
  }));
  Json jobs = Json::array();
  for (const JobRow& row : rows) {
    FETTLE_ASSIGN_OR_RETURN(const v1::Job job, calls.Describe(row));
    jobs.push_back(SeedsAsText(ToJson(job)));
  }
  const bool more = static_cast<int>(rows.size()) == limit;
  return JsonResponse(
      {{"jobs", std::move(jobs)},
       {"next_cursor", more ? TimeToken(rows.back().created_ns, rows.back().id) : ""}});
}

absl::StatusOr<HttpResponse> Submit(const OptimizerCalls& calls, const ApiRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const Json body,
                          ParseBody(request, {"task_files", "target", "proposer", "budget", "seed",
                                              "options", "request_id"}));
  v1::SubmitJobRequest submit;
  FETTLE_ASSIGN_OR_RETURN(*submit.mutable_request_id(), TextField(body, "request_id", ""));
  FETTLE_ASSIGN_OR_RETURN(*submit.mutable_target(), TextField(body, "target", "auto"));
  FETTLE_ASSIGN_OR_RETURN(*submit.mutable_proposer(), TextField(body, "proposer", "tuner"));
  FETTLE_ASSIGN_OR_RETURN(*submit.mutable_budget(), BudgetField(body));
  FETTLE_ASSIGN_OR_RETURN(const std::uint64_t seed, SeedField(body));
  submit.set_seed(seed);
  if (const auto options = body.find("options"); options != body.end() && !options->is_null()) {
    submit.set_options_json(options->dump(-1, ' ', false, kReplaceInvalid));
  }
  FETTLE_ASSIGN_OR_RETURN(*submit.mutable_task_blob(), TaskField(body));
  return Answer(calls.SubmitJob(submit));
}

absl::StatusOr<HttpResponse> ListEvents(const OptimizerCalls& calls, const ApiRequest& request) {
  v1::ListEventsRequest list;
  list.set_job_id(request.parameters[0]);
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t after, QueryNumber(request.http, "after", 0));
  list.set_after_sequence(after);
  FETTLE_ASSIGN_OR_RETURN(const int limit,
                          QueryLimit(request.http, limits::kDefaultPageSize, limits::kMaxPageSize));
  list.set_page_size(limit);
  FETTLE_ASSIGN_OR_RETURN(const v1::ListEventsResponse page, calls.ListEvents(list));
  Json events = Json::array();
  for (const v1::JobEvent& event : page.events()) events.push_back(ToJson(event));
  const bool more = page.events_size() == limit;
  const std::string next =
      more ? std::to_string(page.events(page.events_size() - 1).sequence()) : "";
  return JsonResponse({{"events", std::move(events)}, {"next_cursor", next}});
}

absl::StatusOr<HttpResponse> ListCandidates(const OptimizerCalls& calls,
                                            const ApiRequest& request) {
  v1::ListCandidatesRequest list;
  list.set_job_id(request.parameters[0]);
  list.set_verdict(request.http.Query("verdict"));
  list.set_page_token(request.http.Query("cursor"));
  FETTLE_ASSIGN_OR_RETURN(const int limit,
                          QueryLimit(request.http, limits::kDefaultPageSize, limits::kMaxPageSize));
  list.set_page_size(limit);
  absl::StatusOr<v1::ListCandidatesResponse> page = calls.ListCandidates(list);
  FETTLE_RETURN_IF_ERROR(page.status());
  Json candidates = Json::array();
  for (const v1::Candidate& one : page->candidates()) {
    candidates.push_back(SeedsAsText(ToJson(one)));
  }
  return JsonResponse(
      {{"candidates", std::move(candidates)}, {"next_cursor", page->next_page_token()}});
}

// Five significant digits are more than a plot shows.
double Rounded(double value) {
  return value == 0 ? 0 : std::strtod(fmt::format("{:.5g}", value).c_str(), nullptr);
}

absl::StatusOr<HttpResponse> GetTimeline(const OptimizerCalls& calls, const ApiRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t after, QueryNumber(request.http, "after", 0));
  FETTLE_ASSIGN_OR_RETURN(const int limit,
                          QueryLimit(request.http, kMaxTimelinePage, kMaxTimelinePage));
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, calls.Job(request.parameters[0]));
  std::vector<TimelinePoint> points;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(points, Timeline(db, job.id, after, limit));
    return absl::OkStatus();
  }));
  Json rows = Json::array();
  for (const TimelinePoint& p : points) {
    rows.push_back(
        Json::array({p.ordinal, p.parent_ordinal, p.digest.substr(0, 16), p.verdict, p.reason_code,
                     p.stage, p.technique, Rounded(p.ratio), Rounded(p.ratio_low),
                     Rounded(p.ratio_high), p.created_ns / 1'000'000, p.judged_ns / 1'000'000}));
  }
  const bool more = static_cast<int>(points.size()) == limit;
  return JsonResponse(
      {{"columns",
        {"ordinal", "parent_ordinal", "digest", "verdict", "reason_code", "stage", "technique",
         "ratio", "ratio_low", "ratio_high", "created_ms", "judged_ms"}},
       {"rows", std::move(rows)},
       {"next_cursor", more ? std::to_string(points.back().ordinal) : ""}});
}

absl::StatusOr<HttpResponse> GetCandidate(const OptimizerCalls& calls, const ApiRequest& request) {
  v1::GetCandidateRequest get;
  get.set_job_id(request.parameters[0]);
  get.set_digest(request.parameters[1]);
  FETTLE_ASSIGN_OR_RETURN(const v1::Candidate candidate, calls.GetCandidate(get));
  return JsonResponse({{"candidate", SeedsAsText(ToJson(candidate))}});
}

Json CallJson(const AgentCallRow& row) {
  return {{"sequence", row.sequence}, {"kind", row.kind},           {"model", row.model},
          {"state", row.state},       {"error", row.error},         {"tokens", row.tokens},
          {"usd", row.usd},           {"device_ms", row.device_ms}, {"created_ns", row.created_ns},
          {"ended_ns", row.ended_ns}};
}

// One call with what was said: documents of the agent's journal.
absl::StatusOr<HttpResponse> GetCall(const OptimizerCalls& calls, const ApiRequest& request) {
  std::int64_t sequence = 0;
  const std::string& text = request.parameters[1];
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), sequence);
  if (error != std::errc() || rest != text.data() + text.size()) {
    return errors::BadField("sequence", "must be a number");
  }
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, calls.Job(request.parameters[0]));
  AgentCallRow row;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, ReadAgentCall(db, job.id, sequence));
    return absl::OkStatus();
  }));
  Json call = CallJson(row);
  call["request"] = ParseDocument(row.request);
  call["reply"] = ParseDocument(row.reply);
  return JsonResponse({{"call", SeedsAsText(std::move(call))}});
}

// The agent's questions to models and its tries, in order; what was said is in each call.
absl::StatusOr<HttpResponse> ListCalls(const OptimizerCalls& calls, const ApiRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t after, QueryNumber(request.http, "after", 0));
  FETTLE_ASSIGN_OR_RETURN(const int limit,
                          QueryLimit(request.http, limits::kDefaultPageSize, limits::kMaxPageSize));
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, calls.Job(request.parameters[0]));
  std::vector<AgentCallRow> rows;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, ListAgentCalls(db, job.id, after, limit));
    return absl::OkStatus();
  }));
  Json list = Json::array();
  for (const AgentCallRow& row : rows) list.push_back(CallJson(row));
  const bool more = static_cast<int>(rows.size()) == limit;
  return JsonResponse({{"calls", std::move(list)},
                       {"next_cursor", more ? std::to_string(rows.back().sequence) : ""}});
}

absl::StatusOr<HttpResponse> Resume(const OptimizerCalls& calls, const ApiRequest& request) {
  v1::ResumeJobRequest resume;
  resume.set_job_id(request.parameters[0]);
  if (!request.http.body.empty()) {
    FETTLE_ASSIGN_OR_RETURN(const Json body, ParseBody(request, {"budget"}));
    FETTLE_ASSIGN_OR_RETURN(*resume.mutable_budget(), BudgetField(body));
  }
  return Answer(calls.ResumeJob(resume));
}

}  // namespace

void Api::AddJobRoutes() {
  const OptimizerCalls& calls = calls_;
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs",
                     .summary = "Jobs, newest first",
                     .query = {"state", "task", "target", "limit", "cursor"},
                     .answer = "JobList",
                     .call = [&calls](const ApiRequest& r) { return ListJobs(calls, r); }});
  routes_.push_back({.method = "POST",
                     .pattern = "/api/v1/jobs",
                     .role = AccessRole::kOperate,
                     .summary = "Submit a job",
                     .body = "SubmitRequest",
                     .answer = "JobAnswer",
                     .call = [&calls](const ApiRequest& r) { return Submit(calls, r); },
                     .body_bytes = kSubmitBodyBytes});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs/stream",
                     .summary = "Open jobs as they change: server-sent events named jobs",
                     .kind = ApiRoute::Kind::kJobFeed});
  routes_.push_back(
      {.method = "GET",
       .pattern = "/api/v1/jobs/{job}",
       .summary = "One job",
       .answer = "JobAnswer",
       .call = [&calls](const ApiRequest& r) { return Answer(calls.GetJob(r.parameters[0])); }});
  routes_.push_back(
      {.method = "POST",
       .pattern = "/api/v1/jobs/{job}/cancel",
       .role = AccessRole::kOperate,
       .summary = "Cancel a job",
       .answer = "JobAnswer",
       .call = [&calls](const ApiRequest& r) { return Answer(calls.CancelJob(r.parameters[0])); }});
  routes_.push_back({.method = "POST",
                     .pattern = "/api/v1/jobs/{job}/resume",
                     .role = AccessRole::kOperate,
                     .summary = "Resume a job that has ended, with this budget or the one it has",
                     .body = "ResumeRequest",
                     .answer = "JobAnswer",
                     .call = [&calls](const ApiRequest& r) { return Resume(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs/{job}/events",
                     .summary = "Events after a sequence number, oldest first",
                     .query = {"after", "limit"},
                     .answer = "EventList",
                     .call = [&calls](const ApiRequest& r) { return ListEvents(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs/{job}/calls",
                     .summary = "The agent's questions to models and its tries, after a sequence "
                                "number",
                     .query = {"after", "limit"},
                     .answer = "CallList",
                     .call = [&calls](const ApiRequest& r) { return ListCalls(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs/{job}/calls/{sequence}",
                     .summary = "One of them with its request and reply",
                     .answer = "CallAnswer",
                     .call = [&calls](const ApiRequest& r) { return GetCall(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs/{job}/stream",
                     .summary = "Events as server-sent events with their sequence numbers as ids; "
                                "Last-Event-ID or after resumes; ends after the event end",
                     .query = {"after"},
                     .kind = ApiRoute::Kind::kEvents});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs/{job}/candidates",
                     .summary = "Candidates by ordinal",
                     .query = {"verdict", "limit", "cursor"},
                     .answer = "CandidateList",
                     .call = [&calls](const ApiRequest& r) { return ListCandidates(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs/{job}/timeline",
                     .summary = "Candidates as points, after an ordinal: rows of the named columns",
                     .query = {"after", "limit"},
                     .answer = "Timeline",
                     .call = [&calls](const ApiRequest& r) { return GetTimeline(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/jobs/{job}/candidates/{digest}",
                     .summary = "One candidate with its evidence; a prefix of the digest is enough",
                     .answer = "CandidateAnswer",
                     .call = [&calls](const ApiRequest& r) { return GetCandidate(calls, r); }});
}

}  // namespace fettle
