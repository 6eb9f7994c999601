// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <grpcpp/support/server_callback.h>

#include "fettle/v1/worker.grpc.pb.h"
#include "server/access.h"
#include "server/dispatcher.h"
#include "server/executor.h"
#include "store/store.h"

namespace fettle {

class WorkerSession;

// The service that workers connect to. All references outlive it.
class WorkerHubService final : public v1::WorkerHub::CallbackService {
 public:
  WorkerHubService(const Access& access, Store& store, Dispatcher& dispatcher, Executor& executor)
      : access_(access), store_(store), dispatcher_(dispatcher), executor_(executor) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>* Connect(
      grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<v1::BlobChunk>* FetchBlob(grpc::CallbackServerContext* context,
                                                     const v1::ReadBlobRequest* request) override;
  grpc::ServerUnaryReactor* HasBlobs(grpc::CallbackServerContext* context,
                                     const v1::HasBlobsRequest* request,
                                     v1::HasBlobsResponse* response) override;
  grpc::ServerReadReactor<v1::BlobChunk>* StoreBlob(grpc::CallbackServerContext* context,
                                                    v1::StoreBlobResponse* response) override;

  // Ends all sessions and refuses new ones.
  void CloseSessions();

 private:
  friend class WorkerSession;
  void Remember(const std::shared_ptr<WorkerSession>& session);
  void Forget(WorkerSession* session);

  const Access& access_;
  Store& store_;
  Dispatcher& dispatcher_;
  Executor& executor_;
  std::mutex mutex_;
  std::set<std::shared_ptr<WorkerSession>> sessions_;  // Guarded by mutex_.
  bool closed_ = false;                                // Guarded by mutex_.
};

}  // namespace fettle
