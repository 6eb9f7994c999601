// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/http_client.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include <curl/curl.h>
#include <fmt/format.h>

#include "agent/llm/llm_client.h"
#include "core/status_macros.h"

namespace fettle {

using Steady = std::chrono::steady_clock;

// How long a connection whose answer is whole may take to end by itself, so that it can carry the
// next call.
constexpr std::chrono::milliseconds kLinger(100);

struct HttpTransfer {
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  const HttpPost* request = nullptr;
  const HttpClient::OnData* on_data = nullptr;
  HttpPosted response;
  Steady::time_point last_piece;
  char error[CURL_ERROR_SIZE] = {};
  bool stopped_by_reader = false;
  bool enough = false;  // What still comes is of no interest.
  // Guarded by the loop's mutex:
  bool cancel = false;
  std::optional<absl::Status> done;

  ~HttpTransfer() {
    curl_slist_free_all(headers);
    if (easy != nullptr) curl_easy_cleanup(easy);
  }
};

namespace {

std::size_t OnHeader(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<HttpTransfer*>(user);
  std::string_view line(bytes, size * count);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    transfer.response = {};
    if (const std::size_t space = line.find(' '); space != std::string_view::npos) {
      transfer.response.status = std::atoi(std::string(line.substr(space + 1, 3)).c_str());
    }
  } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
      value.remove_prefix(1);
    transfer.response.headers[std::move(name)] = std::string(value);
  }
  return size * count;
}

std::size_t OnBody(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<HttpTransfer*>(user);
  if (transfer.enough) return size * count;
  transfer.last_piece = Steady::now();
  switch ((*transfer.on_data)(transfer.response, std::string_view(bytes, size * count))) {
    case HttpClient::Next::kGoOn:
      break;
    case HttpClient::Next::kEnough:
      transfer.enough = true;
      break;
    case HttpClient::Next::kStop:
      transfer.stopped_by_reader = true;
      return 0;  // Ends the transfer with CURLE_WRITE_ERROR.
  }
  return size * count;
}

void Configure(HttpTransfer& transfer) {
  CURL* easy = transfer.easy;
  const HttpPost& request = *transfer.request;
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  for (const auto& [name, value] : request.headers) {
    transfer.headers = curl_slist_append(transfer.headers, (name + ": " + value).c_str());
  }
  transfer.headers = curl_slist_append(transfer.headers, "Expect:");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.error);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(request.connect_limit.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.total_limit.count()));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!request.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, request.ca_file.c_str());
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
}

// How long it may say nothing.
std::chrono::milliseconds IdleLimit(const HttpTransfer& transfer) {
  return transfer.enough ? kLinger : transfer.request->idle_limit;
}

absl::Status ToStatus(const HttpTransfer& transfer, CURLcode code) {
  if (code == CURLE_OK || transfer.enough) return absl::OkStatus();
  const std::string what =
      fmt::format("post to {}: {}", transfer.request->url,
                  transfer.error[0] != '\0' ? transfer.error : curl_easy_strerror(code));
  if (transfer.stopped_by_reader) return absl::OutOfRangeError(what);
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(what);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return absl::InvalidArgumentError(what);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return AsUnbilled(absl::UnavailableError(what));  // Nothing was sent.
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return AsUnbilled(absl::FailedPreconditionError(what + " (name its authority with ca_file)"));
    default:
      return absl::UnavailableError(what);
  }
}

}  // namespace

class HttpClient::Loop {
 public:
  Loop() : multi_(curl_multi_init()), thread_([this](std::stop_token stop) { Run(stop); }) {
    FETTLE_CHECK(multi_ != nullptr);
  }
  ~Loop() {
    thread_.request_stop();
    curl_multi_wakeup(multi_);
    thread_.join();
    curl_multi_cleanup(multi_);
  }

  void Start(HttpTransfer& transfer) {
    {
      const std::lock_guard lock(mutex_);
      starting_.push_back(&transfer);
    }
    curl_multi_wakeup(multi_);
  }
  void Cancel(HttpTransfer& transfer) {
    {
      const std::lock_guard lock(mutex_);
      transfer.cancel = true;
    }
    curl_multi_wakeup(multi_);
  }
  absl::Status Wait(HttpTransfer& transfer) {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return transfer.done.has_value(); });
    return *transfer.done;
  }

 private:
  void Run(const std::stop_token& stop) {
    std::vector<HttpTransfer*> active;
    while (!stop.stop_requested()) {
      Admit(active);
      int running = 0;
      curl_multi_perform(multi_, &running);
      Collect(active);
      curl_multi_poll(multi_, nullptr, 0, PollLimit(active), nullptr);
    }
    Admit(active);
    for (HttpTransfer* transfer : active)
      End(*transfer, absl::CancelledError("http client closed"));
  }

  // Takes new transfers over and ends cancelled and idle ones.
  void Admit(std::vector<HttpTransfer*>& active) {
    std::vector<HttpTransfer*> starting, cancelled;
    {
      const std::lock_guard lock(mutex_);
      starting.swap(starting_);
      for (HttpTransfer* transfer : active) {
        if (transfer->cancel) cancelled.push_back(transfer);
      }
    }
    for (HttpTransfer* transfer : starting) {
      transfer->last_piece = Steady::now();
      curl_multi_add_handle(multi_, transfer->easy);
      active.push_back(transfer);
    }
    for (HttpTransfer* transfer : cancelled) {
      std::erase(active, transfer);
      End(*transfer,
          absl::CancelledError(fmt::format("post to {}: cancelled", transfer->request->url)));
    }
    const auto now = Steady::now();
    std::erase_if(active, [&](HttpTransfer* transfer) {
      if (now - transfer->last_piece < IdleLimit(*transfer)) return false;
      End(*transfer, transfer->enough
                         ? absl::OkStatus()
                         : absl::DeadlineExceededError(fmt::format(
                               "post to {}: nothing came for {} ms", transfer->request->url,
                               transfer->request->idle_limit.count())));
      return true;
    });
  }

  void Collect(std::vector<HttpTransfer*>& active) {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      char* user = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
      auto* transfer = reinterpret_cast<HttpTransfer*>(user);
      std::erase(active, transfer);
      End(*transfer, ToStatus(*transfer, code));
    }
  }

  // Sleeps until the next idle limit at most; curl's own timers and wakeups end the sleep earlier.
  static int PollLimit(const std::vector<HttpTransfer*>& active) {
    auto limit = std::chrono::milliseconds(60000);
    const auto now = Steady::now();
    for (const HttpTransfer* transfer : active) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          transfer->last_piece + IdleLimit(*transfer) - now);
      limit = std::min(limit,
                       std::max(left + std::chrono::milliseconds(1), std::chrono::milliseconds(0)));
    }
    return static_cast<int>(limit.count());
  }

  // After this the transfer belongs to its waiter alone.
  void End(HttpTransfer& transfer, absl::Status status) {
    curl_multi_remove_handle(multi_, transfer.easy);
    {
      const std::lock_guard lock(mutex_);
      transfer.done = std::move(status);
    }
    finished_.notify_all();
  }

  CURLM* multi_;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<HttpTransfer*> starting_;  // Guarded by mutex_.
  std::jthread thread_;                  // Last: uses all of the above.
};

HttpClient::HttpClient() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  loop_ = std::make_unique<Loop>();
}

HttpClient::~HttpClient() = default;

absl::StatusOr<HttpPosted> HttpClient::Post(const HttpPost& request, const OnData& on_data,
                                            std::stop_token stop) {
  HttpTransfer transfer;
  transfer.easy = curl_easy_init();
  if (transfer.easy == nullptr) return absl::ResourceExhaustedError("start an HTTP transfer");
  transfer.request = &request;
  transfer.on_data = &on_data;
  Configure(transfer);
  loop_->Start(transfer);
  absl::Status status;
  {
    const std::stop_callback cancel(stop, [&] { loop_->Cancel(transfer); });
    status = loop_->Wait(transfer);
  }
  if (!status.ok()) return status;
  return std::move(transfer.response);
}

}  // namespace fettle
