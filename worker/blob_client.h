// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "core/blob.h"

namespace grpc {
class Channel;
}

namespace fettle {

// Blobs in a folder of this machine, by digest. Survives restarts; losing it costs time only.
// Thread-safe, also between processes.
class BlobFolder final : public BlobStore {
 public:
  // kUnavailable: the folder cannot be made. Removes the oldest files beyond `limit_bytes`.
  static absl::StatusOr<std::unique_ptr<BlobFolder>> Open(std::filesystem::path folder,
                                                          std::int64_t limit_bytes);
  absl::StatusOr<std::string> Get(std::string_view digest) override;
  absl::StatusOr<std::string> Put(std::string_view bytes) override;

 private:
  explicit BlobFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path PathOf(std::string_view digest) const;

  std::filesystem::path folder_;
};

// The server's blobs over WorkerHub, behind a folder of this machine. Thread-safe.
class BlobClient {
 public:
  // `local` must outlive the client.
  BlobClient(std::shared_ptr<grpc::Channel> channel, BlobStore& local);
  ~BlobClient();

  // From the folder, else from the server; the bytes match the digest. Waits while the server is
  // away, up to a minute.
  absl::StatusOr<std::string> Get(std::string_view digest, std::stop_token stop);
  // Sends those of `digests` that the server lacks. kUnavailable: try again when it is back.
  absl::Status Upload(const std::vector<std::string>& digests, std::stop_token stop);

 private:
  struct Stub;
  absl::StatusOr<std::string> Fetch(std::string_view digest, std::stop_token stop);
  absl::Status Send(std::string_view digest, std::stop_token stop);

  std::unique_ptr<Stub> stub_;
  BlobStore& local_;
};

// What one unit reads and writes: reads through the client, writes to the folder and remembers what
// has to be sent before its result.
class UnitBlobs final : public BlobStore {
 public:
  UnitBlobs(BlobClient& client, BlobStore& local, std::stop_token stop)
      : client_(client), local_(local), stop_(std::move(stop)) {}
  absl::StatusOr<std::string> Get(std::string_view digest) override {
    return client_.Get(digest, stop_);
  }
  absl::StatusOr<std::string> Put(std::string_view bytes) override;
  std::vector<std::string> TakeWritten();

 private:
  BlobClient& client_;
  BlobStore& local_;
  std::stop_token stop_;
  std::mutex mutex_;
  std::vector<std::string> written_;  // Guarded by mutex_.
};

}  // namespace fettle
