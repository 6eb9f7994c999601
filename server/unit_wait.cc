// SPDX-License-Identifier: Apache-2.0
#include "server/unit_wait.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "server/ids.h"

namespace fettle {
namespace {

// Outlives the waiter when the unit ends late.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::optional<UnitEnd> end;  // Guarded by mutex.
};

}  // namespace

absl::StatusOr<UnitResult> RunUnit(Dispatcher& dispatcher, WorkUnit unit, std::stop_token stop,
                                   std::function<void(std::int64_t, bool)> charge) {
  auto mailbox = std::make_shared<Mailbox>();
  UnitTicket ticket;
  ticket.durable = false;
  ticket.unit = std::move(unit);
  ticket.row.id = RandomId("u");
  ticket.row.kind = std::string(UnitKindName(ticket.unit.kind));
  ticket.charge = std::move(charge);
  const std::string id = ticket.row.id;
  ticket.done = [mailbox](UnitEnd end) {
    {
      const std::lock_guard lock(mailbox->mutex);
      mailbox->end = std::move(end);
    }
    mailbox->wake.notify_all();
  };
  dispatcher.Enqueue(std::move(ticket));
  std::unique_lock lock(mailbox->mutex);
  if (!mailbox->wake.wait(lock, stop, [&] { return mailbox->end.has_value(); })) {
    lock.unlock();
    dispatcher.CancelUnit(id);
    return absl::CancelledError("the unit was no longer wanted");
  }
  const UnitEnd end = *std::move(mailbox->end);
  lock.unlock();
  dispatcher.Settle(id);
  if (!end.has_result) {
    return absl::UnavailableError(
        fmt::format("given up after {} attempts: {}", end.unit.attempt, end.reason));
  }
  const auto json = nlohmann::json::parse(end.result_json, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InternalError("the worker's result is not JSON");
  return UnitResultFromJson(json);
}

}  // namespace fettle
