// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

// "cuda:0 NVIDIA H200, cpu AMD EPYC"; or what a worker without a device compiles for.
std::string OfferOf(const v1::Worker& worker) {
  std::string offer;
  const auto add = [&offer](const std::string& text) {
    offer += (offer.empty() ? "" : ", ") + Printable(text);
  };
  const nlohmann::json devices = ParseJson(worker.devices_json());
  if (devices.is_array() && !devices.empty()) {
    for (const nlohmann::json& device : devices) {
      if (!device.is_object()) continue;
      add(fmt::format("{} {}", device.value("id", std::string()),
                      device.value("model", std::string())));
    }
    return offer;
  }
  const nlohmann::json compilers = ParseJson(worker.compilers_json());
  if (compilers.is_array()) {
    for (const nlohmann::json& compiler : compilers) {
      if (!compiler.is_object()) continue;
      for (const nlohmann::json& target : compiler.value("targets", nlohmann::json::array())) {
        if (target.is_string()) add(target.get<std::string>());
      }
    }
  }
  return "compiles for " + (offer.empty() ? "nothing" : offer);
}

// Most ids begin with the host's name.
std::string NameOf(const v1::Worker& worker) {
  std::string name = Printable(worker.id());
  if (!worker.id().starts_with(worker.host())) name += " on " + Printable(worker.host());
  return name;
}

class WorkersCommand final : public Subcommand {
 public:
  std::string name() const override { return "workers"; }
  std::string summary() const override { return "list connected workers and what they offer"; }
  void Declare(FlagSet& flags) override {
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const auto workers, client->ListWorkers());
    if (json_) {
      nlohmann::json list = nlohmann::json::array();
      for (const v1::Worker& worker : workers) list.push_back(ToJson(worker));
      context.terminal.Print(list.dump(2, ' ', false, kReplaceInvalid));
      return ExitCode::kOk;
    }
    if (workers.empty()) {
      context.terminal.Note("no worker is connected; start one with fettle worker");
      return ExitCode::kOk;
    }
    Table table({{"WORKER"}, {"STATE"}, {"UNITS", true}, {"AGE", true}, {"OFFERS"}});
    const std::int64_t now = std::time(nullptr);
    for (const v1::Worker& worker : workers) {
      table.Row({NameOf(worker), worker.state(), FormatCount(worker.leased_units()),
                 FormatAge(std::max<std::int64_t>(now - worker.connected().seconds(), 0)),
                 OfferOf(worker)});
    }
    context.terminal.Raw(table.Render(context.terminal.width()));
    return ExitCode::kOk;
  }

 private:
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeWorkersCommand() { return std::make_unique<WorkersCommand>(); }

}  // namespace fettle
