// SPDX-License-Identifier: Apache-2.0
#include "server/blob_reactors.h"

#include <algorithm>
#include <mutex>

#include "core/digest.h"
#include "server/errors.h"
#include "server/grpc_status.h"
#include "server/limits.h"

namespace fettle {
namespace {

class SendReactor final : public grpc::ServerWriteReactor<v1::BlobChunk> {
 public:
  SendReactor(Executor& executor, std::function<absl::StatusOr<std::string>()> produce)
      : produce_(std::move(produce)) {
    if (!executor.Post([this] { Begin(); })) {
      Finish(ToGrpcStatus(absl::ResourceExhaustedError("too many calls wait; try again")));
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone"));
      return;
    }
    if (sent_all_) {
      Finish(grpc::Status::OK);
      return;
    }
    WriteNext();
  }
  void OnDone() override { delete this; }

 private:
  void Begin() {
    absl::StatusOr<std::string> bytes = produce_();
    if (!bytes.ok()) {
      Finish(ToGrpcStatus(bytes.status()));
      return;
    }
    bytes_ = *std::move(bytes);
    digest_ = Sha256Hex(bytes_);
    WriteNext();
  }

  void WriteNext() {
    const std::size_t size = std::min(limits::kBlobChunkBytes, bytes_.size() - offset_);
    chunk_.set_data(bytes_.data() + offset_, size);
    offset_ += size;
    sent_all_ = offset_ == bytes_.size();
    if (sent_all_) chunk_.set_sha256(digest_);
    StartWrite(&chunk_);
  }

  const std::function<absl::StatusOr<std::string>()> produce_;
  std::string bytes_, digest_;
  std::size_t offset_ = 0;
  bool sent_all_ = false;
  v1::BlobChunk chunk_;
};

class ReceiveReactor final : public grpc::ServerReadReactor<v1::BlobChunk> {
 public:
  ReceiveReactor(Executor& executor, BlobFiles& blobs, v1::StoreBlobResponse* response)
      : executor_(executor), blobs_(blobs), response_(response) {
    StartRead(&chunk_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {  // The client has sent everything, or is gone.
      if (!executor_.Post([this] { Store(); })) {
        Finish(ToGrpcStatus(absl::ResourceExhaustedError("too many calls wait; try again")));
      }
      return;
    }
    if (bytes_.size() + chunk_.data().size() > limits::kMaxBlobBytes) {
      Finish(ToGrpcStatus(
          errors::TooLong("data", bytes_.size() + chunk_.data().size(), limits::kMaxBlobBytes)));
      return;
    }
    bytes_ += chunk_.data();
    digest_ = chunk_.sha256();
    StartRead(&chunk_);
  }
  void OnDone() override { delete this; }

 private:
  void Store() {
    if (digest_.empty()) {
      Finish(ToGrpcStatus(
          errors::BadField("sha256", "the last chunk must carry the SHA-256 of all bytes")));
      return;
    }
    if (Sha256Hex(bytes_) != digest_) {
      Finish(ToGrpcStatus(absl::DataLossError(
          "the bytes that arrived do not match their sha256; send them again")));
      return;
    }
    absl::StatusOr<std::string> stored = blobs_.Put(bytes_);
    if (stored.ok()) response_->set_digest(*stored);
    Finish(ToGrpcStatus(stored.status()));
  }

  Executor& executor_;
  BlobFiles& blobs_;
  v1::StoreBlobResponse* const response_;
  std::string bytes_, digest_;
  v1::BlobChunk chunk_;
};

class RefusedSend final : public grpc::ServerWriteReactor<v1::BlobChunk> {
 public:
  explicit RefusedSend(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

class RefusedReceive final : public grpc::ServerReadReactor<v1::BlobChunk> {
 public:
  explicit RefusedReceive(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<v1::BlobChunk>* SendBytes(
    Executor& executor, std::function<absl::StatusOr<std::string>()> produce) {
  return new SendReactor(executor, std::move(produce));
}

grpc::ServerReadReactor<v1::BlobChunk>* ReceiveBlob(Executor& executor, BlobFiles& blobs,
                                                    v1::StoreBlobResponse* response) {
  return new ReceiveReactor(executor, blobs, response);
}

grpc::ServerWriteReactor<v1::BlobChunk>* RefuseSend(const absl::Status& status) {
  return new RefusedSend(status);
}
grpc::ServerReadReactor<v1::BlobChunk>* RefuseReceive(const absl::Status& status) {
  return new RefusedReceive(status);
}

}  // namespace fettle
