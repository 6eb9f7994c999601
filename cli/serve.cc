// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/paths.h"
#include "core/status_macros.h"
#include "server/server.h"

namespace fettle {
namespace {

constexpr char kDefaultHttp[] = "127.0.0.1:7650";

class ServeCommand final : public Subcommand {
 public:
  std::string name() const override { return "serve"; }
  std::string summary() const override { return "run the service, with a worker on this machine"; }
  std::string details() const override {
    return "Listens on a socket in the data folder that only this user can open. TCP, also on\n"
           "loopback, asks for a token (DATA/operate.token and DATA/worker.token, made on first\n"
           "start); beyond loopback it needs TLS. Prints a link that opens the dashboard.";
  }
  void Declare(FlagSet& flags) override {
    flags.Flag("--data-dir", "DIR", &data_, "data folder (FETTLE_DATA_DIR)")
        .Alias("--data")
        .completes = Completes::kFolder;
    flags
        .Flag("--socket", "FILE", &options_.socket_path,
              "unix socket (default: fettle.sock in the data folder)")
        .completes = Completes::kFile;
    flags.Flag("--listen", "HOST:PORT", &options_.listen, "also serve on TCP; may be repeated");
    flags.Flag("--tokens", "FILE", &options_.token_file, "tokens and their roles, mode 0600")
        .completes = Completes::kFile;
    flags.Flag("--tls-certificate", "FILE", &options_.tls_certificate_file, "PEM chain").completes =
        Completes::kFile;
    flags.Flag("--tls-key", "FILE", &options_.tls_key_file, "PEM key").completes = Completes::kFile;
    flags.Flag("--http", "HOST:PORT", &http_,
               "dashboard and HTTP API (default 127.0.0.1:7650, or any port when that is taken; "
               "none: \"off\")");
    flags.Flag("--http-name", "HOST:PORT", &options_.http_names,
               "further name by which browsers reach it; may be repeated");
    flags
        .Flag("--models", "FILE", &options_.models_file,
              "models, prices and limits over the bundled ones (docs/agent.md)")
        .completes = Completes::kFile;
    flags
        .Flag("--fleet", "FILE", &options_.fleet_file,
              "have Slurm start workers, as the file says (docs/fleet.md)")
        .completes = Completes::kFile;
    flags.Flag("--reflection", "", &options_.reflection, "answer gRPC reflection");
    flags.Flag("--no-worker", "", &no_worker_, "start no worker on this machine");
    flags.Flag("--device", "ID", &devices_, "device of the local worker; may be repeated");
  }
  bool handles_signals() const override { return true; }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    (void)context;
    options_.data_dir = DataFolder(data_);
    FETTLE_RETURN_IF_ERROR(MakePrivateFolder(options_.data_dir));
    options_.version = FettleVersion();
    if (http_.empty()) {
      options_.http = kDefaultHttp;
      options_.http_any_port_if_taken = true;
    } else if (http_ != "off") {
      options_.http = http_;
    }
    if (!no_worker_) {
      options_.local_worker = {ProgramFolder() + "/fettle", "worker"};
      for (const std::string& device : devices_) {
        options_.local_worker.insert(options_.local_worker.end(), {"--device", device});
      }
    }
    options_.fleet_program = ProgramFolder() + "/fettle";
    const int code = RunServer(std::move(options_));
    return code == 0 ? ExitCode::kOk : static_cast<ExitCode>(code);
  }

 private:
  std::string data_, http_;
  ServerOptions options_;
  std::vector<std::string> devices_;
  bool no_worker_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> MakeServeCommand() { return std::make_unique<ServeCommand>(); }

}  // namespace fettle
