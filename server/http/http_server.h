// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "server/http/message.h"

namespace fettle {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // An address, or "localhost".
  int port = 0;                    // 0: any.
  bool any_port_if_taken = false;
  std::string tls_certificate, tls_key;  // PEM; both or none.
  std::size_t max_connections = 1024;
  std::size_t max_header_bytes = 16U << 10;
  std::chrono::seconds idle{75};     // Between requests of a connection.
  std::chrono::seconds request{60};  // For a request to arrive, and for an answer to be taken.
  std::chrono::seconds stream_beat{
      20};  // A comment line is sent on a stream that was silent so long.
};

// An HTTP/1.1 server, over TLS where a certificate is given. One thread moves the bytes of all
// connections, so an open stream costs a few kilobytes and no thread.
class HttpServer {
 public:
  // `handler` outlives the server. kUnavailable: the address is taken or not allowed.
  // kInvalidArgument: the certificate or the host.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options,
                                                           HttpHandler& handler);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
  virtual std::size_t connections() const = 0;
  // Closes all connections and ends the thread. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace fettle
