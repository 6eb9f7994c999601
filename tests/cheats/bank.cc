// SPDX-License-Identifier: Apache-2.0
#include "tests/cheats/bank.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "judge/accept.h"

namespace fettle {
namespace {

using nlohmann::json;

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("read {}", path.string()));
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

VerdictRecord Refused(std::string message) {
  return {.verdict = Verdict::kRefused,
          .stage = Stage::kPolicy,
          .reason_code = "invalid_proposal",
          .message = std::move(message)};
}

}  // namespace

absl::StatusOr<std::vector<BankEntry>> ReadBank(const std::string& folder) {
  FETTLE_ASSIGN_OR_RETURN(const std::string text, ReadFile(folder + "/bank.json"));
  const json bank = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!bank.is_object()) return absl::InvalidArgumentError("bank.json is no JSON object");
  std::vector<BankEntry> entries;
  for (const json& item : bank.at("entries")) {
    BankEntry entry;
    entry.id = item.at("id");
    entry.kind = item.at("kind");
    entry.task = item.at("task");
    entry.title = item.at("title");
    entry.source_name = std::filesystem::path(item.at("kernel").get<std::string>()).filename();
    FETTLE_ASSIGN_OR_RETURN(entry.source,
                            ReadFile(folder + "/" + item.at("kernel").get<std::string>()));
    entry.expect = item.at("expect").get<std::vector<std::string>>();
    entry.targets = item.value("targets", std::vector<std::string>());
    entry.block = item.value("block", json::object());
    if (item.contains("naive")) {
      const json& naive = item["naive"];
      entry.naive = NaiveExpectation{.habit = naive.value("habit", std::string()),
                                     .fooled = naive.value("fooled", true),
                                     .wins = naive.value("wins", false),
                                     .why = naive.value("why", std::string()),
                                     .file = naive.value("file", std::string()),
                                     .marker = naive.value("marker", std::string()),
                                     .targets = naive.value("targets", std::vector<std::string>())};
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<TaskFiles> ReadBankTask(const std::string& folder, const std::string& task) {
  constexpr std::string_view kBundled = "bundled/";
  const std::string path = task.starts_with(kBundled)
                               ? folder + "/../../tasks/" + task.substr(kBundled.size())
                               : folder + "/tasks/" + task;
  TaskFiles files;
  for (const auto& file : std::filesystem::directory_iterator(path)) {
    FETTLE_ASSIGN_OR_RETURN(files[file.path().filename()], ReadFile(file.path()));
  }
  return files;
}

bool RunsOn(const std::vector<std::string>& targets, const std::string& target) {
  if (targets.empty()) return true;
  for (const std::string& one : targets) {
    if (one == target || (one == "gpu" && target != "cpu")) return true;
  }
  return false;
}

absl::StatusOr<BankKernel> ParseBankEntry(const std::string& folder, const BankEntry& entry) {
  BankKernel parsed;
  FETTLE_ASSIGN_OR_RETURN(parsed.files, ReadBankTask(folder, entry.task));
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(parsed.files, &problems);
  if (!task.ok()) return absl::InternalError(FormatProblems(problems));
  parsed.task = *task;
  json block = ToJson(parsed.task->baseline());
  block["source"] = entry.source;
  block["source_name"] = entry.source_name;
  for (const auto& [key, value] : entry.block.items()) block[key] = value;
  auto kernel = parsed.task->ParseKernelSpec(block, &problems);
  if (kernel.ok()) {
    parsed.kernel = *std::move(kernel);
  } else {
    parsed.problem = FormatProblems(problems);
  }
  return parsed;
}

absl::StatusOr<VerdictRecord> BankJudge::Judge(const BankEntry& entry, std::uint64_t seed) {
  FETTLE_ASSIGN_OR_RETURN(const BankKernel parsed, ParseBankEntry(folder_, entry));
  if (!parsed.kernel) return Refused(parsed.problem);
  const Task& task = *parsed.task;
  const KernelSpec& kernel = *parsed.kernel;

  WorkUnit unit;
  unit.id = "bank-" + entry.id;
  unit.task_digest = task.digest();
  FETTLE_ASSIGN_OR_RETURN(unit.task_blob, blobs_.Put(PackTaskFiles(parsed.files)));
  unit.target = target_;
  unit.candidate = {CandidateDigest(unit.task_digest, target_, kernel, kernel.values), kernel,
                    kernel.values};
  const KernelSpec& baseline = task.baseline();
  unit.denominator = {CandidateDigest(unit.task_digest, target_, baseline, baseline.values),
                      baseline, baseline.values};
  unit.seed = seed;
  // What must be found wrong is verified, and confirmed, however slow it is: held-out sizes are
  // drawn in confirmations only.
  const bool must_fail =
      std::find(entry.expect.begin(), entry.expect.end(), "NO_WIN") == entry.expect.end() &&
      entry.kind == "cheat";
  unit.screen = !must_fail;
  unit.time_cap_s = 3;
  FETTLE_ASSIGN_OR_RETURN(UnitResult result, runner_.Run(unit, blobs_, {}, {}));
  if (result.verdict) return *result.verdict;
  if (!result.measurement) return absl::InternalError("no verdict and no measurement");
  const judge::AcceptanceRule rule;
  if (!must_fail && !judge::IsContender(*result.measurement, 1, rule)) {
    return judge::DecideConfirmation(*result.measurement, 1, 0, rule).record.verdict ==
                   Verdict::kWin
               ? VerdictRecord{.verdict = Verdict::kAmbiguous, .reason_code = "not_a_contender"}
               : judge::DecideConfirmation(*result.measurement, 1, 0, rule).record;
  }
  ++confirmations_;
  unit.id += "-confirm";
  unit.kind = UnitKind::kConfirm;
  unit.seed = seed * 0x9E3779B97F4A7C15u + 1;
  unit.held_out_seed = seed ^ 0xD1B54A32D192ED03u;
  FETTLE_ASSIGN_OR_RETURN(result, runner_.Run(unit, blobs_, {}, {}));
  if (result.verdict) return *result.verdict;
  if (!result.measurement) return absl::InternalError("no verdict and no measurement");
  return judge::DecideConfirmation(*result.measurement, 1, 0, rule).record;
}

}  // namespace fettle
