// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fake_http_server.h"

#include <cerrno>
#include <cstdlib>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

// Reads one request: its head, then as many bytes as Content-Length says.
std::string ReadRequest(int connection) {
  std::string request;
  char buffer[16384];
  std::size_t wanted = std::string::npos;
  while (wanted == std::string::npos || request.size() < wanted) {
    const ssize_t got = ::recv(connection, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    request.append(buffer, static_cast<std::size_t>(got));
    const std::size_t head = request.find("\r\n\r\n");
    if (head == std::string::npos || wanted != std::string::npos) continue;
    const std::size_t length = request.find("Content-Length: ");
    wanted = head + 4;
    if (length < head) {
      wanted += static_cast<std::size_t>(std::atoll(request.c_str() + length + 16));
    }
  }
  return request;
}

void SendAll(int connection, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(connection, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
}

}  // namespace

FakeHttpServer::FakeHttpServer() {
  stop_event_ = ::eventfd(0, EFD_CLOEXEC);
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  FETTLE_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  FETTLE_CHECK(::listen(listener_, 256) == 0);
  socklen_t size = sizeof address;
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::jthread([this] { Serve(); });
}

FakeHttpServer::~FakeHttpServer() {
  stopping_ = true;
  ::eventfd_write(stop_event_, 1);
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  handlers_.clear();  // Joins.
  ::close(listener_);
  ::close(stop_event_);
}

std::string FakeHttpServer::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

void FakeHttpServer::Play(std::vector<Answer> answers) {
  const std::lock_guard lock(mutex_);
  answers_ = std::move(answers);
}

void FakeHttpServer::Respond(Responder respond) {
  const std::lock_guard lock(mutex_);
  respond_ = std::move(respond);
}

std::vector<std::string> FakeHttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeHttpServer::AwaitRequests(std::size_t count) const {
  while (requests().size() < count) std::this_thread::yield();
}

void FakeHttpServer::Serve() {
  while (!stopping_) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    std::erase_if(handlers_, [](const Handler& handler) { return handler.done->load(); });
    if (connection < 0) continue;
    auto done = std::make_shared<std::atomic<bool>>(false);
    handlers_.push_back({done, std::jthread([this, connection, done] {
                           Handle(connection);
                           *done = true;
                         })});
  }
}

void FakeHttpServer::Handle(int connection) {
  std::string request = ReadRequest(connection);
  if (request.empty()) {  // The client left before it asked anything.
    ::close(connection);
    return;
  }
  Answer answer;
  Responder respond;
  {
    const std::lock_guard lock(mutex_);
    if (keep_requests_) requests_.push_back(request);
    respond = respond_;
    if (!answers_.empty()) answer = answers_.front();
    if (answers_.size() > 1) answers_.erase(answers_.begin());
  }
  if (respond) answer = respond(request);
  for (const Piece& piece : answer) {
    SendAll(connection, piece.bytes);
    if (piece.after == Piece::After::kReset) {
      const linger hard{1, 0};
      ::setsockopt(connection, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      break;
    }
    if (piece.after == Piece::After::kStall) {  // Until the client leaves or the server ends.
      pollfd wait[] = {{connection, POLLIN | POLLRDHUP, 0}, {stop_event_, POLLIN, 0}};
      while (::poll(wait, 2, -1) < 0 && errno == EINTR) {
      }
      break;
    }
  }
  ::close(connection);
}

FakeHttpServer::Answer HttpAnswer(int status, const std::string& body,
                                  const std::string& extra_headers) {
  return {
      {fmt::format("HTTP/1.1 {} Said\r\nContent-Type: application/json\r\n"
                   "Content-Length: {}\r\nConnection: close\r\n{}\r\n{}",
                   status, body.size(), extra_headers, body)}};
}

std::string StreamHead() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
}

}  // namespace fettle
