// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/raw_http.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/status_macros.h"

namespace fettle {

RawConnection::RawConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  FETTLE_CHECK(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
               0);
}

void RawConnection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // The server answered and closed; the answer is still to be read.
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool RawConnection::Fill() {
  if (closed_) return false;
  pollfd waiting{fd_.get(), POLLIN, 0};
  if (poll(&waiting, 1, 10'000) != 1) {
    ADD_FAILURE() << "no answer within 10 s";
    closed_ = true;
    return false;
  }
  char bytes[65536];
  const ssize_t got = recv(fd_.get(), bytes, sizeof(bytes), 0);
  if (got <= 0) {
    closed_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<std::size_t>(got));
  return true;
}

std::optional<std::string> RawConnection::Until(std::string_view end) {
  std::size_t at = buffer_.find(end);
  while (at == std::string::npos) {
    if (!Fill()) return std::nullopt;
    at = buffer_.find(end);
  }
  std::string found = buffer_.substr(0, at + end.size());
  buffer_.erase(0, at + end.size());
  return found;
}

RawResponse RawConnection::Head() {
  RawResponse response;
  const std::optional<std::string> head = Until("\r\n\r\n");
  if (!head.has_value()) return response;
  std::string_view rest = *head;
  bool first = true;
  while (!rest.empty()) {
    const auto end = rest.find("\r\n");
    const std::string line(rest.substr(0, end));
    rest.remove_prefix(end + 2);
    if (first) {
      if (line.size() > 12) response.status = std::atoi(line.c_str() + 9);
      first = false;
      continue;
    }
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    response.headers.emplace(name, line.substr(colon + 2));
  }
  return response;
}

RawResponse RawConnection::Response() {
  RawResponse response = Head();
  const std::string length = response.Header("content-length");
  if (response.status == 304 || response.status == 204) return response;
  const std::size_t wanted = length.empty() ? std::string::npos : std::stoul(length);
  while (buffer_.size() < wanted && Fill()) {
  }
  const std::size_t size = std::min(wanted, buffer_.size());
  response.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return response;
}

RawResponse RawRequest(int port, const std::string& method, const std::string& target,
                       const RawHeaders& headers, const std::string& body) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nConnection: close\r\n", method, target);
  bool has_host = false;
  for (const auto& [name, value] : headers) {
    has_host = has_host || name == "Host";
    text += fmt::format("{}: {}\r\n", name, value);
  }
  if (!has_host) text += fmt::format("Host: 127.0.0.1:{}\r\n", port);
  if (!body.empty()) text += fmt::format("Content-Length: {}\r\n", body.size());
  RawConnection connection(port);
  connection.Send(text + "\r\n" + body);
  return connection.Response();
}

std::optional<RawEvent> NextEvent(RawConnection& connection) {
  while (true) {
    const std::optional<std::string> text = connection.Until("\n\n");
    if (!text.has_value()) return std::nullopt;
    RawEvent event;
    std::string_view rest = *text;
    while (!rest.empty()) {
      const auto end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      const auto colon = line.find(": ");
      if (colon == std::string_view::npos || colon == 0) continue;
      const std::string value(line.substr(colon + 2));
      if (line.substr(0, colon) == "id") event.id = value;
      if (line.substr(0, colon) == "event") event.name = value;
      if (line.substr(0, colon) == "data") event.data = value;
    }
    if (!event.name.empty()) return event;
  }
}

}  // namespace fettle
