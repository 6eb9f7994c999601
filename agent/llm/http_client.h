// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

struct HttpPost {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // POSTed.
  std::chrono::milliseconds connect_limit{10000};
  std::chrono::milliseconds total_limit{300000};
  std::chrono::milliseconds idle_limit{60000};  // Longest wait between two pieces of the answer.
  std::string ca_file;                          // Empty: the system's.
};

struct HttpPosted {
  int status = 0;
  std::map<std::string, std::string> headers;  // Names in lower case; the last one wins.
};

// HTTP over libcurl's multi interface: one thread carries every transfer, so a hundred waiting
// calls cost no processor time and little memory. TLS certificates are always verified; proxies
// come from the usual environment variables; redirects are not followed (a key must not travel).
//
// Thread-safe. Destroying it cancels what is under way.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  enum class Next {
    kGoOn,
    kEnough,  // The answer is whole: ends well, with the stream or a moment later.
    kStop,    // Ends with kOutOfRange.
  };
  // Receives the answer piece by piece on the client's own thread, up to kEnough or kStop. Must not
  // block. `response` has status and headers by then.
  using OnData = std::function<Next(const HttpPosted& response, std::string_view bytes)>;

  // POSTs and waits.
  //
  // Errors: kCancelled (`stop` was requested; the transfer ends at once), kDeadlineExceeded (a
  // limit passed; the message says which), kUnavailable (connect, TLS or transfer failed; retry may
  // help), kOutOfRange (`on_data` said kStop), kInvalidArgument (the URL), kFailedPrecondition (the
  // server's certificate is not to be trusted). An HTTP error status is
  // not an error here.
  absl::StatusOr<HttpPosted> Post(const HttpPost& request, const OnData& on_data,
                                  std::stop_token stop);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace fettle
