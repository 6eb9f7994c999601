// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <absl/status/statusor.h>
#include <grpcpp/support/server_callback.h>

#include "fettle/v1/optimizer.pb.h"
#include "fettle/v1/worker.pb.h"
#include "server/executor.h"
#include "store/blob_files.h"

namespace fettle {

// Sends the bytes that `produce` returns as chunks; the last one carries their SHA-256. `produce`
// runs on the executor, which outlives the stream.
grpc::ServerWriteReactor<v1::BlobChunk>* SendBytes(
    Executor& executor, std::function<absl::StatusOr<std::string>()> produce);

// Receives one blob and stores it. The last chunk must carry the SHA-256 of all bytes.
// kInvalidArgument: too large or no digest. kDataLoss: another digest.
grpc::ServerReadReactor<v1::BlobChunk>* ReceiveBlob(Executor& executor, BlobFiles& blobs,
                                                    v1::StoreBlobResponse* response);

// Streams that end at once with `status`.
grpc::ServerWriteReactor<v1::BlobChunk>* RefuseSend(const absl::Status& status);
grpc::ServerReadReactor<v1::BlobChunk>* RefuseReceive(const absl::Status& status);

}  // namespace fettle
