// SPDX-License-Identifier: Apache-2.0
#include "worker/runner_server.h"

#include <fmt/format.h>

#include "core/json_reader.h"
#include "core/status_macros.h"
#include "profiler/ceilings.h"
#include "worker/channel.h"
#include "worker/runner_protocol.h"

namespace fettle {
namespace {

constexpr std::int64_t kMaxCodeObjectBytes = std::int64_t{1} << 30;

std::chrono::steady_clock::time_point Never() {
  return std::chrono::steady_clock::now() + std::chrono::hours(24 * 365);
}

// The memory file of a request that is being answered.
class Bulk {
 public:
  explicit Bulk(const ChannelMessage& message) : fd_(message.bulk.get()) {}

  absl::StatusOr<std::string> Read(std::int64_t size) {
    std::string bytes(static_cast<std::size_t>(size), '\0');
    if (size == 0) return bytes;
    if (fd_ < 0) return absl::InvalidArgumentError("a request with data brought no memory file");
    FETTLE_RETURN_IF_ERROR(
        ReadBulk(fd_, offset_, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
    offset_ += size;
    return bytes;
  }
  absl::Status Write(const std::vector<std::vector<std::uint8_t>>& outputs) {
    for (const std::vector<std::uint8_t>& output : outputs) {
      if (output.empty()) continue;
      if (fd_ < 0) {
        return absl::InvalidArgumentError("a request for outputs brought no room for them");
      }
      FETTLE_RETURN_IF_ERROR(WriteBulk(fd_, offset_, output));
      offset_ += static_cast<std::int64_t>(output.size());
    }
    return absl::OkStatus();
  }

 private:
  int fd_;
  std::int64_t offset_ = 0;
};

absl::StatusOr<std::map<std::string, std::string>> ReadFiles(const ChannelMessage& message,
                                                             Bulk& bulk) {
  std::map<std::string, std::string> files;
  FETTLE_ASSIGN_OR_RETURN(const std::vector<FileEntry> entries,
                          FilesFromHeader(message.header.value("files", nlohmann::json::array())));
  for (const FileEntry& entry : entries) {
    FETTLE_ASSIGN_OR_RETURN(files[entry.path], bulk.Read(entry.size));
  }
  return files;
}

absl::StatusOr<nlohmann::json> Load(const ChannelMessage& message, RunnerSession& session) {
  JsonReader reader(message.header, "load");
  std::string op;
  std::int64_t size = 0;
  std::vector<std::string> symbols;
  reader.Get("op", op);
  reader.Get("size", size);
  reader.Get("symbols", symbols);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  if (size < 0 || size > kMaxCodeObjectBytes) {
    return absl::InvalidArgumentError(fmt::format("load: {} bytes of code object", size));
  }
  Bulk bulk(message);
  FETTLE_ASSIGN_OR_RETURN(const std::string code, bulk.Read(size));
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t module, session.LoadModule(code, symbols));
  return nlohmann::json{{"module", module}};
}

absl::StatusOr<nlohmann::json> Unload(const ChannelMessage& message, RunnerSession& session) {
  JsonReader reader(message.header, "unload");
  std::string op;
  std::int64_t module = 0;
  reader.Get("op", op);
  reader.Get("module", module);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  FETTLE_RETURN_IF_ERROR(session.UnloadModule(module));
  return nlohmann::json::object();
}

absl::StatusOr<nlohmann::json> RunOrTime(const ChannelMessage& message, RunnerSession& session,
                                         ReceivedCases& cases, bool timed) {
  const nlohmann::json request = message.header.value("request", nlohmann::json());
  Bulk bulk(message);
  if (timed) {
    FETTLE_ASSIGN_OR_RETURN(TimeRequest parsed, TimeRequestFromJson(request, cases));
    FETTLE_ASSIGN_OR_RETURN(parsed.files, ReadFiles(message, bulk));
    FETTLE_ASSIGN_OR_RETURN(const TimeObservation seen, session.TimeCase(parsed));
    if (parsed.want_outputs) FETTLE_RETURN_IF_ERROR(bulk.Write(seen.outputs));
    return nlohmann::json{{"observation", ToJson(seen)}};
  }
  FETTLE_ASSIGN_OR_RETURN(RunRequest parsed, RunRequestFromJson(request, cases));
  FETTLE_ASSIGN_OR_RETURN(parsed.files, ReadFiles(message, bulk));
  FETTLE_ASSIGN_OR_RETURN(const RunObservation seen, session.RunCase(parsed));
  if (parsed.want_outputs) {
    FETTLE_RETURN_IF_ERROR(bulk.Write(seen.outputs));
    for (const auto& outputs : seen.other_outputs) FETTLE_RETURN_IF_ERROR(bulk.Write(outputs));
  }
  return nlohmann::json{{"observation", ToJson(seen)}};
}

absl::StatusOr<nlohmann::json> Fetch(const ChannelMessage& message, RunnerSession& session) {
  JsonReader reader(message.header, "fetch");
  std::string op;
  reader.Get("op", op);
  const nlohmann::json& lists = reader.Child("rows");
  std::vector<std::vector<std::int64_t>> rows;
  if (reader.ok() && !lists.is_array()) reader.Fail("rows", "must be a list of lists");
  for (std::size_t i = 0; reader.ok() && i < lists.size(); ++i) {
    std::vector<std::int64_t>& some = rows.emplace_back();
    for (const nlohmann::json& row : lists[i]) {
      if (!row.is_number_integer()) return absl::InvalidArgumentError("rows: must be integers");
      some.push_back(row.get<std::int64_t>());
    }
  }
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  Bulk bulk(message);
  FETTLE_ASSIGN_OR_RETURN(const auto outputs, session.FetchOutputs(rows));
  FETTLE_RETURN_IF_ERROR(bulk.Write(outputs));
  return nlohmann::json::object();
}

absl::StatusOr<nlohmann::json> Handle(const ChannelMessage& message, const RunnerHandlers& handlers,
                                      ReceivedCases& cases) {
  RunnerSession& session = *handlers.session;
  const auto found = message.header.find("op");
  const std::string op =
      found != message.header.end() && found->is_string() ? found->get<std::string>() : "";
  if (op == kOpHello) return nlohmann::json{{"device", ToJson(session.device())}};
  if (handlers.ceilings) {
    if (op != kOpCeilings) return absl::UnimplementedError("this runner measures ceilings only");
    FETTLE_ASSIGN_OR_RETURN(const Ceilings ceilings, handlers.ceilings());
    return nlohmann::json{{"ceilings", ToJson(ceilings)}};
  }
  if (op == kOpLoad) return Load(message, session);
  if (op == kOpUnload) return Unload(message, session);
  if (op == kOpRun) return RunOrTime(message, session, cases, /*timed=*/false);
  if (op == kOpTime) return RunOrTime(message, session, cases, /*timed=*/true);
  if (op == kOpFetch) return Fetch(message, session);
  if (op == kOpHealth) {
    FETTLE_RETURN_IF_ERROR(session.CheckHealth());
    return nlohmann::json::object();
  }
  return absl::UnimplementedError(fmt::format("the runner has no operation \"{}\"", op));
}

}  // namespace

absl::Status ServeRunner(int socket, const RunnerHandlers& handlers) {
  ReceivedCases cases;
  while (true) {
    absl::StatusOr<ChannelMessage> message =
        ReceiveMessage(socket, /*accept_bulk=*/true, Never(), {});
    if (absl::IsAborted(message.status())) return absl::OkStatus();  // The worker is done.
    if (!message.ok()) return message.status();
    absl::StatusOr<nlohmann::json> answer = Handle(*message, handlers, cases);
    const nlohmann::json reply =
        answer.ok() ? *std::move(answer) : nlohmann::json{{"error", ErrorJson(answer.status())}};
    FETTLE_RETURN_IF_ERROR(SendMessage(socket, reply, -1, Never()));
    if (absl::IsAborted(answer.status()) || absl::IsDeadlineExceeded(answer.status())) {
      return answer.status();
    }
  }
}

}  // namespace fettle
