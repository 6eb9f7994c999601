// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/llm/http_client.h"
#include "core/status_macros.h"
#include "proto/channel.h"
#include "server/access.h"
#include "server/agent_services.h"
#include "server/event_hub.h"
#include "server/executor.h"
#include "server/fleet/fleet.h"
#include "server/fleet/local_pool.h"
#include "server/http/dashboard.h"
#include "server/job_manager.h"
#include "server/job_tokens.h"
#include "server/optimizer_service.h"
#include "server/proposals_service.h"
#include "server/worker_hub_service.h"
#include "store/store.h"

namespace fettle {
namespace {

constexpr int kExecutorThreads = 4;
constexpr int kLongCallThreads = 2;
constexpr int kMinPingIntervalMs = 5'000;

// Whether something accepts connections on the socket.
bool Answers(const std::string& path) {
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (fd.get() < 0 || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// Removes what a dead server left. The data folder's lock is held by now.
absl::Status PrepareSocket(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("socket {}: a socket's path may have at most {} bytes; choose a shorter one "
                    "with --socket",
                    path, sizeof(sockaddr_un::sun_path) - 1));
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("socket {}: something else lies there; remove it or choose another", path));
  }
  if (Answers(path)) {
    return absl::FailedPreconditionError(
        fmt::format("socket {}: another server answers there; stop it or choose another", path));
  }
  if (unlink(path.c_str()) != 0) return ErrnoStatus(errno, "remove the old socket " + path);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsCredentials(
    const ServerOptions& options) {
  FETTLE_ASSIGN_OR_RETURN(const std::string key, ReadSecretFile(options.tls_key_file));
  FETTLE_ASSIGN_OR_RETURN(const std::string certificate,
                          ReadWholeFile(options.tls_certificate_file));
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({key, certificate});
  return grpc::SslServerCredentials(tls);
}

absl::Status CheckListen(const ServerOptions& options) {
  const bool tls = !options.tls_certificate_file.empty();
  if (tls != !options.tls_key_file.empty()) {
    return absl::InvalidArgumentError("TLS needs both a certificate file and a key file");
  }
  std::vector<std::string> endpoints = options.listen;
  if (!options.http.empty()) endpoints.push_back(options.http);
  for (const std::string& endpoint : endpoints) {
    if (IsUnixEndpoint(endpoint) || endpoint.find(':') == std::string::npos) {
      return absl::InvalidArgumentError(
          fmt::format("listen {}: write host:port; the unix socket is set apart", endpoint));
    }
    const std::string port = endpoint.substr(endpoint.rfind(':') + 1);
    int number = -1;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size() || number < 0 || number > 65535) {
      return absl::InvalidArgumentError(
          fmt::format("listen {}: the port must be a number from 0 to 65535", endpoint));
    }
    if (!tls && !IsLoopbackEndpoint(endpoint)) {
      return absl::InvalidArgumentError(fmt::format(
          "listen {}: beyond loopback TLS is needed; give a certificate and a key", endpoint));
    }
  }
  return absl::OkStatus();
}

class RunningServer final : public Server {
 public:
  RunningServer(ServerOptions options, std::unique_ptr<Store> store, Access access,
                ModelCatalog models, std::optional<FleetConfig> fleet)
      : options_(std::move(options)),
        clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
        fleet_config_(std::move(fleet)),
        store_(std::move(store)),
        access_(std::move(access)),
        agent_{.models = std::move(models), .http = &http_client_, .retry = options_.retry},
        executor_("call", kExecutorThreads, limits::kMaxQueuedCalls),
        long_calls_("long-call", kLongCallThreads, limits::kMaxQueuedCalls),
        dispatcher_(*store_, clock_, options_.dispatcher),
        jobs_(JobContext{*store_, dispatcher_, events_, clock_, options_.proposers, options_.rule,
                         options_.version, options_.proposer_kinds, &agent_,
                         fleet_config_ ? &*fleet_config_ : nullptr}),
        fleet_(!fleet_config_
                   ? nullptr
                   : std::make_unique<Fleet>(
                         *fleet_config_,
                         FleetParts{*store_, dispatcher_, worker_tokens_, clock_,
                                    store_->data_dir_id(), [this] { return jobs_.Demands(); }})),
        calls_(OptimizerParts{access_, *store_, dispatcher_, events_, jobs_, executor_, long_calls_,
                              clock_, options_.version, fleet_.get()}),
        optimizer_(calls_),
        proposals_(ProposalsParts{access_, tokens_, *store_, dispatcher_, events_, jobs_, executor_,
                                  clock_, options_.rule}),
        hub_(access_, *store_, dispatcher_, executor_) {
    access_.UseJobTokens(tokens_);
    access_.UseWorkerTokens(worker_tokens_);
    if (options_.sleep) agent_.sleep = options_.sleep;
    agent_.recordings_dir = options_.data_dir + "/recordings";
  }
  ~RunningServer() override { Shutdown(); }

  absl::Status Begin() {
    FETTLE_RETURN_IF_ERROR(tokens_.Load(*store_));
    FETTLE_RETURN_IF_ERROR(worker_tokens_.Load(*store_));
    dispatcher_.SetWorkersChanged([this] { jobs_.WorkersChanged(); });
    if (fleet_ != nullptr) jobs_.SetJobsChanged([this] { fleet_->Poke(); });
    FETTLE_RETURN_IF_ERROR(jobs_.Start());
    FETTLE_RETURN_IF_ERROR(Listen());
    FETTLE_RETURN_IF_ERROR(ServeHttp());
    if (fleet_ != nullptr) fleet_->Start();
    if (auto* health = grpc_->GetHealthCheckService()) health->SetServingStatus(true);
    if (!options_.local_worker.empty()) {
      std::vector<std::string> command = options_.local_worker;
      command.push_back("--endpoint");
      command.push_back(endpoints_.front());
      local_workers_ = std::make_unique<LocalPool>(std::move(command));
      FETTLE_RETURN_IF_ERROR(local_workers_->Ensure(1).status());
    }
    return absl::OkStatus();
  }

  void Shutdown() override {
    if (stopped_) return;
    stopped_ = true;
    if (grpc_ != nullptr) {
      if (auto* health = grpc_->GetHealthCheckService()) health->SetServingStatus(false);
    }
    if (fleet_ != nullptr) fleet_->Stop();  // Its workers stay for the next start.
    jobs_.Stop();                           // Threads end; jobs go on at the next start.
    dispatcher_.ServerStops();              // Before the workers' sessions end.
    events_.Close();  // Watches and waiting calls end; otherwise gRPC would wait for them.
    hub_.CloseSessions();
    if (dashboard_ != nullptr) dashboard_->Stop();
    if (grpc_ != nullptr) {
      grpc_->Shutdown(std::chrono::system_clock::now() + limits::kDrain);
      grpc_->Wait();
      grpc_.reset();
    }
    if (local_workers_ != nullptr) local_workers_->Stop().IgnoreError();  // It has none.
    executor_.Stop();
    long_calls_.Stop();
    unlink(options_.socket_path.c_str());
  }

  std::vector<std::string> endpoints() const override { return endpoints_; }
  std::string login_link() const override {
    return dashboard_ == nullptr ? "" : dashboard_->login_link();
  }
  int local_worker_pid() const override {
    const std::vector<pid_t> pids =
        local_workers_ == nullptr ? std::vector<pid_t>() : local_workers_->pids();
    return pids.empty() ? 0 : pids.front();
  }

 private:
  absl::Status Listen() {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    // Otherwise a second server would share the port.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kMinPingIntervalMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddListeningPort("unix:" + options_.socket_path, grpc::InsecureServerCredentials());
    std::shared_ptr<grpc::ServerCredentials> tcp = grpc::InsecureServerCredentials();
    if (!options_.tls_certificate_file.empty()) {
      FETTLE_ASSIGN_OR_RETURN(tcp, TlsCredentials(options_));
    }
    std::vector<int> ports(options_.listen.size(), 0);
    for (std::size_t i = 0; i < options_.listen.size(); ++i) {
      builder.AddListeningPort(options_.listen[i], tcp, &ports[i]);
    }
    builder.RegisterService(&optimizer_);
    builder.RegisterService(&proposals_);
    builder.RegisterService(&hub_);
    const mode_t before = umask(0177);  // The socket is its owner's from the first moment.
    grpc_ = builder.BuildAndStart();
    umask(before);
    if (grpc_ == nullptr) {
      return absl::UnavailableError(fmt::format(
          "listen on {}{}: the address is taken or not allowed", options_.socket_path,
          options_.listen.empty() ? "" : fmt::format(" and {}", fmt::join(options_.listen, ", "))));
    }
    endpoints_.push_back("unix:" + options_.socket_path);
    for (std::size_t i = 0; i < ports.size(); ++i) {
      const std::string& given = options_.listen[i];
      endpoints_.push_back(fmt::format("{}:{}", given.substr(0, given.rfind(':')), ports[i]));
    }
    return absl::OkStatus();
  }

  absl::Status ServeHttp() {
    if (options_.http.empty()) return absl::OkStatus();
    DashboardOptions dashboard;
    dashboard.endpoint = options_.http;
    dashboard.any_port_if_taken = options_.http_any_port_if_taken;
    dashboard.names = options_.http_names;
    if (!options_.tls_certificate_file.empty()) {
      FETTLE_ASSIGN_OR_RETURN(dashboard.tls_key, ReadSecretFile(options_.tls_key_file));
      FETTLE_ASSIGN_OR_RETURN(dashboard.tls_certificate,
                              ReadWholeFile(options_.tls_certificate_file));
    }
    FETTLE_ASSIGN_OR_RETURN(dashboard_, Dashboard::Start(std::move(dashboard), calls_));
    return absl::OkStatus();
  }

  const ServerOptions options_;
  Clock& clock_;
  const std::optional<FleetConfig> fleet_config_;
  const std::unique_ptr<Store> store_;
  JobTokens tokens_{JobTokenKind::kPropose}, worker_tokens_{JobTokenKind::kWorker};
  Access access_;
  HttpClient http_client_;
  AgentServices agent_;
  EventHub events_;
  Executor executor_;
  Executor long_calls_;
  Dispatcher dispatcher_;
  JobManager jobs_;
  const std::unique_ptr<Fleet> fleet_;  // Null: none.
  const OptimizerCalls calls_;
  OptimizerService optimizer_;
  ProposalsService proposals_;
  WorkerHubService hub_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<Dashboard> dashboard_;
  std::unique_ptr<LocalPool> local_workers_;
  std::vector<std::string> endpoints_;
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  if (options.data_dir.empty()) options.data_dir = DefaultDataDir();
  if (options.version.empty()) options.version = FETTLE_VERSION;
  if (!options.proposers) options.proposers = DefaultProposers();
  FETTLE_RETURN_IF_ERROR(CheckListen(options));
  StoreOptions store_options;
  store_options.data_dir = options.data_dir;
  store_options.before_commit = options.before_commit;
  FETTLE_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open(std::move(store_options)));
  if (options.max_pages > 0) FETTLE_RETURN_IF_ERROR(store->LimitPages(options.max_pages));
  if (options.socket_path.empty()) options.socket_path = options.data_dir + "/fettle.sock";
  FETTLE_RETURN_IF_ERROR(PrepareSocket(options.socket_path));
  Access access;
  if (!options.listen.empty() || !options.http.empty()) {
    if (options.token_file.empty()) {
      FETTLE_ASSIGN_OR_RETURN(options.token_file, EnsureTokenFile(options.data_dir));
    }
    FETTLE_ASSIGN_OR_RETURN(access, Access::Load(options.token_file));
  }
  absl::StatusOr<ModelCatalog> models = LoadModelCatalog(options.models_file);
  if (!models.ok()) return models.status();
  std::optional<FleetConfig> fleet;
  if (!options.fleet_file.empty()) {
    FETTLE_ASSIGN_OR_RETURN(fleet, LoadFleetConfig(options.fleet_file));
    if (fleet->program.empty()) fleet->program = options.fleet_program;
    if (fleet->folder.empty()) {
      fleet->folder = std::filesystem::absolute(options.data_dir) / "fleet";
    }
    FETTLE_RETURN_IF_ERROR(MakeFolder(fleet->folder));
  }
  // Both are settings of the process, made before the first server is built.
  static const bool once = [] {
    grpc::EnableDefaultHealthCheckService(true);
    return true;
  }();
  static_cast<void>(once);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto server =
      std::make_unique<RunningServer>(std::move(options), std::move(store), std::move(access),
                                      *std::move(models), std::move(fleet));
  FETTLE_RETURN_IF_ERROR(server->Begin());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace fettle
