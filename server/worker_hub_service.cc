// SPDX-License-Identifier: Apache-2.0
#include "server/worker_hub_service.h"

#include <deque>
#include <optional>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "server/blob_reactors.h"
#include "server/errors.h"
#include "server/grpc_status.h"
#include "server/unary.h"

namespace fettle {

// One worker's stream. The dispatcher knows it as a link; messages are queued here and written one
// at a time. Keeps itself alive until OnDone.
class WorkerSession final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>,
                            public WorkerLink,
                            public std::enable_shared_from_this<WorkerSession> {
 public:
  static WorkerSession* Begin(WorkerHubService& service, std::string job_id) {
    std::shared_ptr<WorkerSession> session(new WorkerSession(service, std::move(job_id)));
    session->self_ = session;
    service.Remember(session);
    session->StartRead(&session->incoming_);
    return session.get();
  }

  // --- WorkerLink.
  void Send(v1::ServerMessage message) override {
    {
      const std::lock_guard lock(mutex_);
      if (finishing_) return;
      outgoing_.push_back(std::move(message));
    }
    Advance();
  }
  void Close(std::string reason) override {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      closing_ = true;
      close_reason_ = std::move(reason);
    }
    Advance();
  }

  // --- Reactor.
  void OnReadDone(bool ok) override {
    if (!ok) {
      Gone("the connection was closed");
      return;
    }
    if (!greeted_) {
      if (incoming_.payload_case() != v1::WorkerMessage::kHello) {
        Close("the first message must be Hello");
        return;
      }
      greeted_ = true;
      service_.dispatcher_.Connect(shared_from_this(), std::move(*incoming_.mutable_hello()),
                                   job_id_);
    } else {
      service_.dispatcher_.Message(this, std::move(incoming_));
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      if (!ok) closing_ = true;
    }
    Advance();
  }
  void OnCancel() override { Gone("the connection was lost"); }
  void OnDone() override {
    service_.dispatcher_.Disconnect(this, "the connection was closed");
    service_.Forget(this);
    const std::shared_ptr<WorkerSession> last = std::move(self_);
  }

 private:
  WorkerSession(WorkerHubService& service, std::string job_id)
      : service_(service), job_id_(std::move(job_id)) {}

  void Gone(const std::string& reason) {
    service_.dispatcher_.Disconnect(this, reason);
    Close(reason);
  }

  void Advance() {
    std::optional<grpc::Status> verdict;
    {
      const std::lock_guard lock(mutex_);
      if (writing_ || finishing_) return;
      if (!outgoing_.empty() && !closing_) {
        message_ = std::move(outgoing_.front());
        outgoing_.pop_front();
        writing_ = true;
      } else if (closing_) {
        finishing_ = true;
        verdict = ToGrpcStatus(absl::UnavailableError(
            close_reason_.empty() ? std::string("the connection was lost") : close_reason_));
      } else {
        return;
      }
    }
    if (verdict) {
      Finish(*std::move(verdict));
    } else {
      StartWrite(&message_);
    }
  }

  WorkerHubService& service_;
  const std::string job_id_;             // The one job that it serves; empty: any.
  std::shared_ptr<WorkerSession> self_;  // Reset by OnDone.
  bool greeted_ = false;                 // Reads only.
  v1::WorkerMessage incoming_;           // Owned by gRPC while a read is under way.

  std::mutex mutex_;
  std::deque<v1::ServerMessage> outgoing_;  // Guarded by mutex_.
  bool writing_ = false;                    // Guarded by mutex_.
  bool closing_ = false;                    // Guarded by mutex_.
  bool finishing_ = false;                  // Guarded by mutex_.
  std::string close_reason_;                // Guarded by mutex_.
  v1::ServerMessage message_;               // Owned by gRPC while writing.
};

namespace {

class RefusedSession final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage> {
 public:
  explicit RefusedSession(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

void WorkerHubService::Remember(const std::shared_ptr<WorkerSession>& session) {
  const std::lock_guard lock(mutex_);
  sessions_.insert(session);
}

void WorkerHubService::Forget(WorkerSession* session) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sessions_, [&](const auto& held) { return held.get() == session; });
}

void WorkerHubService::CloseSessions() {
  std::set<std::shared_ptr<WorkerSession>> sessions;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    sessions = sessions_;
  }
  for (const auto& session : sessions) session->Close("the server is shutting down");
}

grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>* WorkerHubService::Connect(
    grpc::CallbackServerContext* context) {
  if (absl::Status allowed = access_.Check(*context, AccessRole::kWorker); !allowed.ok()) {
    return new RefusedSession(allowed);
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return new RefusedSession(errors::ShuttingDown());
  }
  return WorkerSession::Begin(*this, access_.WorkerJob(*context));
}

grpc::ServerWriteReactor<v1::BlobChunk>* WorkerHubService::FetchBlob(
    grpc::CallbackServerContext* context, const v1::ReadBlobRequest* request) {
  if (absl::Status allowed = access_.Check(*context, AccessRole::kWorker); !allowed.ok()) {
    return RefuseSend(allowed);
  }
  return SendBytes(executor_,
                   [this, digest = request->digest()] { return store_.blobs().Get(digest); });
}

grpc::ServerUnaryReactor* WorkerHubService::HasBlobs(grpc::CallbackServerContext* context,
                                                     const v1::HasBlobsRequest* request,
                                                     v1::HasBlobsResponse* response) {
  return RunUnary(executor_, context, access_, AccessRole::kWorker,
                  [this, request, response]() -> absl::Status {
                    if (static_cast<std::size_t>(request->digests_size()) > limits::kMaxHasBlobs) {
                      return errors::BadField(
                          "digests", fmt::format("at most {} at once", limits::kMaxHasBlobs));
                    }
                    for (const std::string& digest : request->digests()) {
                      if (!store_.blobs().Has(digest)) response->add_missing(digest);
                    }
                    return absl::OkStatus();
                  });
}

grpc::ServerReadReactor<v1::BlobChunk>* WorkerHubService::StoreBlob(
    grpc::CallbackServerContext* context, v1::StoreBlobResponse* response) {
  if (absl::Status allowed = access_.Check(*context, AccessRole::kWorker); !allowed.ok()) {
    return RefuseReceive(allowed);
  }
  return ReceiveBlob(executor_, store_.blobs(), response);
}

}  // namespace fettle
