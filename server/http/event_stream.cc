// SPDX-License-Identifier: Apache-2.0
#include "server/http/event_stream.h"

#include <fmt/format.h>

#include "core/text.h"
#include "proto/wire_json.h"
#include "server/event_page.h"
#include "server/limits.h"

namespace fettle {
namespace {

const char* EventName(const v1::JobEvent& event) {
  switch (event.payload_case()) {
    case v1::JobEvent::kStateChanged:
      return "state_changed";
    case v1::JobEvent::kStageStarted:
      return "stage_started";
    case v1::JobEvent::kCandidateJudged:
      return "candidate_judged";
    case v1::JobEvent::kVariantAccepted:
      return "variant_accepted";
    case v1::JobEvent::kNote:
      return "note";
    default:
      return "other";
  }
}

}  // namespace

std::string ServerSentEvent(std::int64_t id, std::string_view name, const nlohmann::json& data) {
  // JSON on one line holds no line break, which would end the field.
  std::string text = id > 0 ? fmt::format("id: {}\n", id) : std::string();
  text += fmt::format("event: {}\ndata: {}\n\n", name, data.dump(-1, ' ', false, kReplaceInvalid));
  return text;
}

std::shared_ptr<EventStream> EventStream::Start(const Store& store, EventHub& hub,
                                                Executor& executor, std::string job_id,
                                                std::int64_t after_sequence,
                                                std::shared_ptr<HttpStream> stream) {
  std::shared_ptr<EventStream> source(
      new EventStream(store, hub, executor, std::move(job_id), after_sequence, std::move(stream)));
  source->subscription_ = hub.Subscribe(source->job_id_, [weak = std::weak_ptr(source)] {
    if (const auto alive = weak.lock()) alive->Ring();
  });
  return source;
}

void EventStream::Ready() {
  {
    const std::lock_guard lock(mutex_);
    taken_ = true;
  }
  Advance();
}

void EventStream::Gone() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
}

void EventStream::Ring() {
  {
    const std::lock_guard lock(mutex_);
    rung_ = true;
  }
  Advance();
}

void EventStream::Advance() {
  if (hub_.closed()) return stream_->Close();  // The client comes back once the server does.
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || fetching_ || !taken_ || !rung_) return;
    fetching_ = true;
    rung_ = false;
  }
  if (!executor_.PostUrgent([self = shared_from_this()] { self->Fetch(); })) stream_->Close();
}

void EventStream::Fetch() {
  std::int64_t after = 0;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    after = cursor_;
  }
  const absl::StatusOr<EventPage> page = ReadEventPage(store_, job_id_, after, limits::kWatchPage);
  std::string text;
  if (page.ok()) {
    for (const v1::JobEvent& event : page->events) {
      text += ServerSentEvent(event.sequence(), EventName(event), ToJson(event));
    }
    if (page->ended) text += ServerSentEvent(0, "end", nlohmann::json::object());
  }
  {
    const std::lock_guard lock(mutex_);
    fetching_ = false;
    if (page.ok()) {
      if (!page->events.empty()) cursor_ = page->events.back().sequence();
      rung_ = rung_ || page->more;
    }
    if (!text.empty()) taken_ = false;
  }
  if (!text.empty()) stream_->Write(std::move(text));
  if (!page.ok() || page->ended) return stream_->Close();
  Advance();
}

}  // namespace fettle
