// SPDX-License-Identifier: Apache-2.0
#include "worker/blob_client.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <unistd.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "fettle/v1/worker.grpc.pb.h"
#include "proto/channel.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = 1 << 20;
constexpr std::int64_t kMostBlobBytes = std::int64_t{4} << 30;
constexpr std::chrono::seconds kServerWait{60};
constexpr std::chrono::seconds kTransferLimit{300};
constexpr std::chrono::milliseconds kRetryPause{200};

bool IsDigest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Sleeps unless `stop` is requested; whether it slept.
bool Pause(const std::stop_token& stop, std::chrono::milliseconds span) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, span, [] { return false; });
  return !stop.stop_requested();
}

// A call's context that ends when `stop` is requested.
struct Call {
  explicit Call(const std::stop_token& stop) : cancel(stop, [this] { context.TryCancel(); }) {
    context.set_deadline(std::chrono::system_clock::now() + kTransferLimit);
  }
  grpc::ClientContext context;
  std::stop_callback<std::function<void()>> cancel;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlobFolder>> BlobFolder::Open(fs::path folder,
                                                             std::int64_t limit_bytes) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(
        fmt::format("make blob folder {}: {}", folder.string(), error.message()));
  }
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::int64_t total = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    total += static_cast<std::int64_t>(entry->file_size(ignored));
    files.emplace_back(entry->last_write_time(ignored), entry->path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& [time, path] : files) {
    if (total <= limit_bytes) break;
    total -= static_cast<std::int64_t>(fs::file_size(path, error));
    fs::remove(path, error);
  }
  return std::unique_ptr<BlobFolder>(new BlobFolder(std::move(folder)));
}

fs::path BlobFolder::PathOf(std::string_view digest) const { return folder_ / digest; }

absl::StatusOr<std::string> BlobFolder::Get(std::string_view digest) {
  if (!IsDigest(digest)) {
    return absl::InvalidArgumentError(fmt::format("\"{}\" is no blob digest", digest));
  }
  std::ifstream in(PathOf(digest), std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("no blob {}", digest));
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (Sha256Hex(bytes) == digest) return bytes;
  std::error_code error;
  fs::remove(PathOf(digest), error);
  return absl::DataLossError(fmt::format("blob {} was damaged on this machine", digest));
}

absl::StatusOr<std::string> BlobFolder::Put(std::string_view bytes) {
  const std::string digest = Sha256Hex(bytes);
  std::error_code error;
  if (fs::exists(PathOf(digest), error)) return digest;
  std::string fresh = (folder_ / ".new-XXXXXX").string();
  const int fd = mkstemp(fresh.data());
  bool written = fd >= 0;
  for (std::size_t done = 0; written && done < bytes.size();) {
    const ssize_t count = write(fd, bytes.data() + done, bytes.size() - done);
    written = count > 0;
    done += written ? static_cast<std::size_t>(count) : 0;
  }
  if (fd >= 0) close(fd);
  if (written) fs::rename(fresh, PathOf(digest), error);
  if (!written || error) {
    fs::remove(fresh, error);
    return absl::ResourceExhaustedError(
        fmt::format("write a blob of {} bytes to {}", bytes.size(), folder_.string()));
  }
  return digest;
}

struct BlobClient::Stub {
  std::unique_ptr<v1::WorkerHub::Stub> hub;
};

BlobClient::BlobClient(std::shared_ptr<grpc::Channel> channel, BlobStore& local)
    : stub_(std::make_unique<Stub>()), local_(local) {
  stub_->hub = v1::WorkerHub::NewStub(channel);
}
BlobClient::~BlobClient() = default;

absl::StatusOr<std::string> BlobClient::Fetch(std::string_view digest, std::stop_token stop) {
  Call call(stop);
  v1::ReadBlobRequest request;
  request.set_digest(std::string(digest));
  const auto reader = stub_->hub->FetchBlob(&call.context, request);
  std::string bytes;
  v1::BlobChunk chunk;
  while (reader->Read(&chunk)) {
    bytes += chunk.data();
    if (static_cast<std::int64_t>(bytes.size()) > kMostBlobBytes) {
      call.context.TryCancel();
      break;
    }
  }
  FETTLE_RETURN_IF_ERROR(FromGrpcStatus(reader->Finish(), "the server"));
  if (Sha256Hex(bytes) != digest) {
    return absl::DataLossError(fmt::format("blob {} arrived damaged", digest));
  }
  return bytes;
}

absl::StatusOr<std::string> BlobClient::Get(std::string_view digest, std::stop_token stop) {
  absl::StatusOr<std::string> local = local_.Get(digest);
  if (local.ok() || absl::IsInvalidArgument(local.status())) return local;
  const auto give_up = std::chrono::steady_clock::now() + kServerWait;
  while (true) {
    absl::StatusOr<std::string> bytes = Fetch(digest, stop);
    if (bytes.ok()) {
      local_.Put(*bytes).status().IgnoreError();  // Full disk: fetched again next time.
      return bytes;
    }
    const bool again = absl::IsUnavailable(bytes.status()) || absl::IsDataLoss(bytes.status());
    if (!again || std::chrono::steady_clock::now() > give_up) return bytes.status();
    if (!Pause(stop, kRetryPause)) return absl::CancelledError("the unit was cancelled");
  }
}

absl::Status BlobClient::Send(std::string_view digest, std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(const std::string bytes, local_.Get(digest));
  Call call(stop);
  v1::StoreBlobResponse response;
  const auto writer = stub_->hub->StoreBlob(&call.context, &response);
  std::size_t done = 0;
  do {
    v1::BlobChunk chunk;
    chunk.set_data(bytes.substr(done, kChunkBytes));
    done += chunk.data().size();
    if (done >= bytes.size()) chunk.set_sha256(std::string(digest));
    if (!writer->Write(chunk)) break;
  } while (done < bytes.size());
  writer->WritesDone();
  FETTLE_RETURN_IF_ERROR(FromGrpcStatus(writer->Finish(), "the server"));
  if (response.digest() != digest) {
    return absl::DataLossError(
        fmt::format("the server stored blob {} as {}", digest, response.digest()));
  }
  return absl::OkStatus();
}

absl::Status BlobClient::Upload(const std::vector<std::string>& digests, std::stop_token stop) {
  if (digests.empty()) return absl::OkStatus();
  v1::HasBlobsRequest request;
  for (const std::string& digest : digests) request.add_digests(digest);
  v1::HasBlobsResponse response;
  Call call(stop);
  FETTLE_RETURN_IF_ERROR(
      FromGrpcStatus(stub_->hub->HasBlobs(&call.context, request, &response), "the server"));
  for (const std::string& digest : response.missing()) FETTLE_RETURN_IF_ERROR(Send(digest, stop));
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnitBlobs::Put(std::string_view bytes) {
  FETTLE_ASSIGN_OR_RETURN(std::string digest, local_.Put(bytes));
  const std::lock_guard lock(mutex_);
  if (std::find(written_.begin(), written_.end(), digest) == written_.end()) {
    written_.push_back(digest);
  }
  return digest;
}

std::vector<std::string> UnitBlobs::TakeWritten() {
  const std::lock_guard lock(mutex_);
  return std::move(written_);
}

}  // namespace fettle
