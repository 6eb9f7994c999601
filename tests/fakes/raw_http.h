// SPDX-License-Identifier: Apache-2.0
#pragma once

// A plain HTTP/1.1 client that sends what it is told, well-formed or not.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/files.h"

namespace fettle {

struct RawResponse {
  int status = 0;
  std::multimap<std::string, std::string> headers;  // Names in lower case.
  std::string body;
  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// One connection to 127.0.0.1. Fails the test where the other side is silent for ten seconds.
class RawConnection {
 public:
  explicit RawConnection(int port);
  void Send(std::string_view bytes);
  // The next response's head; and its body: by length, or up to the end of the connection.
  RawResponse Head();
  RawResponse Response();
  // Bytes up to and including `end`; nullopt: the other side closed first.
  std::optional<std::string> Until(std::string_view end);
  bool closed() const { return closed_; }

 private:
  bool Fill();

  Fd fd_;
  std::string buffer_;
  bool closed_ = false;
};

using RawHeaders = std::vector<std::pair<std::string, std::string>>;

// One request on a connection of its own. A Host header is added where there is none.
RawResponse RawRequest(int port, const std::string& method, const std::string& target,
                       const RawHeaders& headers = {}, const std::string& body = "");

// One server-sent event.
struct RawEvent {
  std::string id, name, data;
};
// The next event of a stream, comments left out; nullopt: the stream ended.
std::optional<RawEvent> NextEvent(RawConnection& connection);

}  // namespace fettle
