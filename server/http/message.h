// SPDX-License-Identifier: Apache-2.0
#pragma once

// HTTP as the rest of server/http sees it, apart from the library that speaks it.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fettle {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // Percent-decoded, without the query; starts with '/'.
  std::vector<std::pair<std::string, std::string>> query;  // Decoded, in order.
  std::map<std::string, std::string> headers;              // Names in lower case.
  std::string body;

  // The value of a header or of a query's first such key; empty where it is missing.
  const std::string& Header(const std::string& lower_case_name) const;
  const std::string& Query(std::string_view key) const;
  // Whether Accept-Encoding takes gzip.
  bool AcceptsGzip() const;
  // Whether If-None-Match names this entity tag, which may be weak.
  bool HasEtag(std::string_view etag) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // Beyond type and length.
  std::string body;
};

// A response that goes on: what is written is sent at once. Thread-safe.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // Queues bytes. Bytes after Close or after the client left are dropped.
  virtual void Write(std::string bytes) = 0;
  // Ends the response once what is queued was sent.
  virtual void Close() = 0;
};

// Where a stream's bytes come from. Called on the transport's thread: must not block.
class HttpStreamSource {
 public:
  virtual ~HttpStreamSource() = default;
  // The head was sent, or all that was written since: more is welcome.
  virtual void Ready() = 0;
  // The client left or the stream was closed. Nothing is called afterwards.
  virtual void Gone() = 0;
};

// The answer to one request; exactly one of the calls is made, once, from any thread. A reply that
// is dropped unanswered closes the connection.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void Send(HttpResponse response) = 0;
  // `make` gets the open stream and returns its source, which the transport keeps until it is gone.
  virtual void Stream(
      HttpResponse head,
      std::function<std::shared_ptr<HttpStreamSource>(std::shared_ptr<HttpStream>)> make) = 0;
};

// What an HTTP server serves. Called on the transport's thread: must not block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The largest body that is read for this request, whose body has not arrived yet.
  virtual std::size_t BodyLimit(const HttpRequest& head) = 0;
  virtual void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) = 0;
};

// "a%20b+c" decoded; nullopt-like false: malformed escapes. '+' is a space only in queries.
bool PercentDecode(std::string_view text, bool plus_is_space, std::string& out);
// Splits a request target into path and query. False: malformed.
bool ParseTarget(std::string_view target, HttpRequest& request);
// The value of a cookie in a Cookie header; empty where it is missing.
std::string CookieValue(std::string_view header, std::string_view name);

}  // namespace fettle
