// SPDX-License-Identifier: Apache-2.0
#include "worker/runner_client.h"

#include <csignal>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "profiler/ceilings.h"
#include "worker/runner_protocol.h"

namespace fettle {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr seconds kLoadLimit{60};
constexpr std::chrono::milliseconds kDeathWait{2000};

// Deadly for the session: the process is not to be asked again.
bool EndsSession(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunnerClient>> RunnerClient::Start(Options options,
                                                                  std::stop_token stop) {
  std::unique_ptr<RunnerClient> client(new RunnerClient(std::move(options)));
  client->stop_ = std::move(stop);
  FETTLE_ASSIGN_OR_RETURN(client->process_, SandboxedProcess::Start(client->options_.sandbox));
  absl::StatusOr<nlohmann::json> hello =
      client->Ask({{"op", kOpHello}}, -1, client->options_.start_limit);
  if (absl::IsCancelled(hello.status())) return hello.status();
  if (!hello.ok()) {
    return absl::UnavailableError(
        fmt::format("start the runner: {}", std::string(hello.status().message())));
  }
  absl::StatusOr<DeviceInfo> device = DeviceInfoFromJson(hello->value("device", nlohmann::json()));
  if (!device.ok()) {
    return absl::UnavailableError(fmt::format("the runner at {} is not of this version: {}",
                                              client->options_.sandbox.runner_path,
                                              std::string(device.status().message())));
  }
  client->device_ = *std::move(device);
  return client;
}

RunnerClient::~RunnerClient() = default;

absl::Status RunnerClient::Watch() {
  if (stop_.stop_requested()) return absl::CancelledError("the unit was cancelled");
  const SandboxUsage used = process_->Usage();
  if (used.memory_bytes > options_.sandbox.memory_bytes) {
    return absl::ResourceExhaustedError(
        fmt::format("the kernel's process used {} bytes of memory; its limit is {}",
                    used.memory_bytes, options_.sandbox.memory_bytes));
  }
  if (used.threads > options_.sandbox.threads) {
    return absl::ResourceExhaustedError(
        fmt::format("the kernel's process made {} threads; its limit is {}", used.threads,
                    options_.sandbox.threads));
  }
  return absl::OkStatus();
}

// Ends the process. A closed channel is the sign of a death whose cause the wait status knows.
absl::Status RunnerClient::Died(absl::Status status) {
  dead_ = true;
  if (absl::IsAborted(status)) {
    if (const std::optional<ProcessEnd> end = process_->WaitEnd(kDeathWait)) {
      // A candidate cannot raise it (lockdown.h), and fettle's own limits say so themselves:
      // somebody else ended the process, as the system does when memory is short.
      status =
          end->signal == SIGKILL
              ? absl::UnavailableError("the kernel's process was killed from outside (SIGKILL)")
              : absl::AbortedError(
                    fmt::format("the kernel's process ended by {}", end->Describe()));
    }
  }
  process_->Kill();
  if (absl::IsResourceExhausted(status)) return absl::AbortedError(status.message());
  return status;
}

// Ends a process that broke the protocol, which only one that candidate code has taken over does.
absl::Status RunnerClient::Distrust(const absl::Status& status) {
  dead_ = true;
  process_->Kill();
  return absl::AbortedError(status.message());
}

absl::StatusOr<nlohmann::json> RunnerClient::Exchange(const nlohmann::json& request, int bulk,
                                                      nanoseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  FETTLE_RETURN_IF_ERROR(SendMessage(process_->channel(), request, bulk, deadline));
  FETTLE_ASSIGN_OR_RETURN(ChannelMessage answer,
                          ReceiveMessage(process_->channel(), /*accept_bulk=*/false, deadline,
                                         [this] { return Watch(); }));
  return std::move(answer.header);
}

absl::StatusOr<nlohmann::json> RunnerClient::Ask(nlohmann::json request, int bulk,
                                                 nanoseconds limit) {
  if (dead_) return absl::AbortedError("the runner process has ended; start another");
  if (stop_.stop_requested()) return Died(absl::CancelledError("the unit was cancelled"));
  absl::StatusOr<nlohmann::json> answer = Exchange(request, bulk, limit);
  if (absl::IsDeadlineExceeded(answer.status())) {
    return Died(absl::DeadlineExceededError(fmt::format(
        "the runner gave no answer to \"{}\" within {} ms", request.value("op", std::string()),
        std::chrono::duration_cast<std::chrono::milliseconds>(limit).count())));
  }
  if (absl::IsInvalidArgument(answer.status())) return Distrust(answer.status());
  if (!answer.ok()) return Died(answer.status());
  absl::Status error = ErrorFromAnswer(*answer);
  if (EndsSession(error)) {
    dead_ = true;
    process_->Kill();
  }
  if (!error.ok()) return error;
  return answer;
}

absl::StatusOr<std::int64_t> RunnerClient::LoadModule(std::string_view code_object,
                                                      const std::vector<std::string>& symbols) {
  const std::string_view pieces[] = {code_object};
  FETTLE_ASSIGN_OR_RETURN(UniqueFd bulk,
                          MakeBulk(pieces, static_cast<std::int64_t>(code_object.size())));
  FETTLE_ASSIGN_OR_RETURN(nlohmann::json answer,
                          Ask({{"op", kOpLoad}, {"size", code_object.size()}, {"symbols", symbols}},
                              bulk.get(), kLoadLimit));
  const auto module = answer.find("module");
  if (module == answer.end() || !module->is_number_integer()) {
    return Distrust(absl::AbortedError("the runner's answer to \"load\" has no module"));
  }
  return module->get<std::int64_t>();
}

absl::Status RunnerClient::UnloadModule(std::int64_t module) {
  return Ask({{"op", kOpUnload}, {"module", module}}, -1, kLoadLimit).status();
}

absl::StatusOr<RunnerClient::Answer> RunnerClient::AskCase(
    std::string_view op, nlohmann::json request, const BoundCase& bound_case,
    const std::map<std::string, std::string>& files, int copies, nanoseconds limit) {
  Answer answer;
  std::vector<std::string_view> pieces;
  for (const auto& [path, bytes] : files) {
    pieces.emplace_back(bytes);
    answer.offset += static_cast<std::int64_t>(bytes.size());
  }
  std::int64_t size = answer.offset;
  for (const std::int64_t output : OutputSizes(bound_case)) size += output * copies;
  if (size > 0) {
    absl::StatusOr<UniqueFd> bulk = MakeBulk(pieces, size);
    if (!bulk.ok()) {
      sent_.Forget();  // The request holds a case that does not arrive now.
      return bulk.status();
    }
    answer.bulk = *std::move(bulk);
  }
  FETTLE_ASSIGN_OR_RETURN(
      nlohmann::json reply,
      Ask({{"op", op}, {"request", std::move(request)}, {"files", FilesHeader(files)}},
          answer.bulk.get(), limit));
  answer.observation = reply.value("observation", nlohmann::json());
  return answer;
}

absl::StatusOr<RunnerClient::Outputs> RunnerClient::TakeOutputs(
    Answer& answer, const std::vector<std::int64_t>& sizes) {
  Outputs outputs;
  for (const std::int64_t size : sizes) {
    std::vector<std::uint8_t>& output = outputs.emplace_back(static_cast<std::size_t>(size));
    if (size == 0) continue;
    FETTLE_RETURN_IF_ERROR(ReadBulk(answer.bulk.get(), answer.offset, output));
    answer.offset += size;
  }
  return outputs;
}

absl::StatusOr<RunnerClient::Outputs> RunnerClient::FetchOutputs(
    const std::vector<std::vector<std::int64_t>>& rows) {
  FETTLE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> sizes, FetchedSizes(last_case_, rows));
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) total += size;
  Answer answer;
  if (total > 0) {
    FETTLE_ASSIGN_OR_RETURN(answer.bulk, MakeBulk({}, total));
  }
  FETTLE_RETURN_IF_ERROR(
      Ask({{"op", kOpFetch}, {"rows", rows}}, answer.bulk.get(), options_.grace).status());
  return TakeOutputs(answer, sizes);
}

void RunnerClient::LimitDevice(std::optional<nanoseconds> most) {
  device_spent_ = false;
  device_end_ns_.reset();
  if (most) device_end_ns_ = device_ns_ + static_cast<double>(most->count());
}

absl::StatusOr<nanoseconds> RunnerClient::DeviceLeft(nanoseconds wanted) {
  if (!device_end_ns_) return wanted;
  const double left = *device_end_ns_ - device_ns_;
  if (left >= static_cast<double>(wanted.count())) return wanted;
  if (left >= 1) return nanoseconds(static_cast<std::int64_t>(left));
  device_spent_ = true;
  return absl::DeadlineExceededError("no device time is left for another call");
}

absl::Status RunnerClient::ChargeDone(double device_ns) {
  device_ns_ += device_ns;
  if (!device_end_ns_ || device_ns_ <= *device_end_ns_) return absl::OkStatus();
  device_ns_ = *device_end_ns_;
  device_spent_ = true;
  return absl::DeadlineExceededError("the call took more device time than was left");
}

void RunnerClient::ChargeFailed(std::chrono::steady_clock::time_point start,
                                const absl::Status& status, bool cut) {
  const auto took = static_cast<double>(
      std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now() - start).count());
  const bool spent = cut && absl::IsDeadlineExceeded(status);
  const double left = device_end_ns_ ? *device_end_ns_ - device_ns_ : took;
  device_ns_ += spent ? left : std::min(took, left);
  device_spent_ = device_spent_ || spent;
}

absl::StatusOr<RunObservation> RunnerClient::RunCase(const RunRequest& request) {
  const BoundCase& bound_case = request.bound_case;
  last_case_ = bound_case;
  const bool others = request.repeats > 1 && !bound_case.deterministic;
  const int copies = !request.want_outputs ? 0
                     : others              ? 1 + static_cast<int>(kMostOtherOutputs)
                                           : 1;
  const int repeats = std::max(1, request.repeats);
  FETTLE_ASSIGN_OR_RETURN(const nanoseconds all, DeviceLeft(request.launch_limit * repeats));
  const nanoseconds each = std::max(all / repeats, nanoseconds(1));
  nlohmann::json form = ToJson(request, sent_.FormOf(bound_case));
  form["launch_limit_ns"] = each.count();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Answer> asked = AskCase(kOpRun, std::move(form), bound_case, request.files, copies,
                                         request.launch_limit * repeats + options_.grace);
  if (!asked.ok()) {
    ChargeFailed(start, asked.status(), each < request.launch_limit);
    return asked.status();
  }
  Answer answer = *std::move(asked);
  absl::StatusOr<RunObservation> observation = RunObservationFromJson(answer.observation);
  if (!observation.ok()) return Distrust(observation.status());
  FETTLE_RETURN_IF_ERROR(ChargeDone(observation->device_ns));
  if (!request.want_outputs) {
    observation->other_outputs.clear();
    return observation;
  }
  // Outputs that are known did not come.
  if (request.known_digests.empty() || observation->output_digests != request.known_digests) {
    FETTLE_ASSIGN_OR_RETURN(observation->outputs, TakeOutputs(answer, OutputSizes(bound_case)));
  }
  if (!others) observation->other_outputs.clear();
  for (Outputs& outputs : observation->other_outputs) {
    FETTLE_ASSIGN_OR_RETURN(outputs, TakeOutputs(answer, OutputSizes(bound_case)));
  }
  return observation;
}

absl::StatusOr<TimeObservation> RunnerClient::TimeCase(const TimeRequest& request) {
  last_case_ = request.bound_case;
  // The cap bounds the blocks; warm-up, a last block and checks come on top.
  const nanoseconds limit = request.time_cap * 2 + request.launch_limit * 4 +
                            nanoseconds(static_cast<std::int64_t>(8e9 * request.warmup_seconds)) +
                            options_.grace;
  const int sets = !request.want_outputs ? 0 : request.single_seeds.empty() ? 1 : 2;
  nlohmann::json form = ToJson(request, sent_.FormOf(request.bound_case));
  if (device_end_ns_) {
    FETTLE_ASSIGN_OR_RETURN(const nanoseconds left, DeviceLeft(kMaxLaunchLimit));
    form["device_cap_ns"] = left.count();
    form["launch_limit_ns"] = std::min(left, request.launch_limit).count();
  }
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Answer> asked =
      AskCase(kOpTime, std::move(form), request.bound_case, request.files, sets, limit);
  if (!asked.ok()) {
    ChargeFailed(start, asked.status(), /*cut=*/device_end_ns_.has_value());
    return asked.status();
  }
  Answer answer = *std::move(asked);
  absl::StatusOr<TimeObservation> observation = TimeObservationFromJson(answer.observation);
  if (!observation.ok()) return Distrust(observation.status());
  FETTLE_RETURN_IF_ERROR(ChargeDone(observation->device_ns));
  for (int set = 0; set < sets && observation->sampled; ++set) {
    FETTLE_ASSIGN_OR_RETURN(Outputs outputs, TakeOutputs(answer, OutputSizes(request.bound_case)));
    std::move(outputs.begin(), outputs.end(), std::back_inserter(observation->outputs));
  }
  return observation;
}

absl::Status RunnerClient::CheckHealth() {
  absl::Status status = Ask({{"op", kOpHealth}}, -1, seconds(30)).status();
  if (status.ok() || absl::IsAborted(status) || absl::IsCancelled(status)) return status;
  return absl::AbortedError(std::string(status.message()));
}

absl::StatusOr<Ceilings> RunnerClient::MeasureCeilings() {
  FETTLE_ASSIGN_OR_RETURN(nlohmann::json answer, Ask({{"op", kOpCeilings}}, -1, seconds(120)));
  return CeilingsFromJson(answer.value("ceilings", nlohmann::json()));
}

}  // namespace fettle
