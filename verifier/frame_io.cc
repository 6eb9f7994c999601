// SPDX-License-Identifier: Apache-2.0
#include "verifier/frame_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

constexpr std::uint32_t kMaxJson = 64u << 20;
constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 30;

absl::Status Wait(int fd, short events, FrameClock::time_point deadline) {
  while (true) {
    int timeout = -1;
    if (deadline != FrameClock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - FrameClock::now());
      if (left.count() <= 0) return absl::DeadlineExceededError("no answer in time");
      timeout = static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000));
    }
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, timeout);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) {
      return absl::InternalError(fmt::format("poll: {}", std::strerror(errno)));
    }
  }
}

absl::Status SocketError(const char* call) {
  if (errno == EPIPE || errno == ECONNRESET) return absl::AbortedError("the other side closed");
  return absl::InternalError(fmt::format("{}: {}", call, std::strerror(errno)));
}

absl::Status SendAll(int fd, std::span<const std::uint8_t> bytes, FrameClock::time_point deadline) {
  while (!bytes.empty()) {
    FETTLE_RETURN_IF_ERROR(Wait(fd, POLLOUT, deadline));
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return SocketError("send");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int fd, std::span<std::uint8_t> bytes, FrameClock::time_point deadline) {
  while (!bytes.empty()) {
    FETTLE_RETURN_IF_ERROR(Wait(fd, POLLIN, deadline));
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return absl::AbortedError("the other side closed");
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return SocketError("recv");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFrame(int fd, const nlohmann::json& json,
                        std::span<const std::span<const std::uint8_t>> bytes,
                        FrameClock::time_point deadline) {
  const std::string text = json.dump(-1, ' ', false, kReplaceInvalid);
  const auto json_size = static_cast<std::uint32_t>(text.size());
  std::uint64_t byte_count = 0;
  for (const auto& part : bytes) byte_count += part.size();
  if (text.size() > kMaxJson || byte_count > kMaxBytes) {
    return absl::InvalidArgumentError(
        fmt::format("a message of {} + {} bytes is over the limit", text.size(), byte_count));
  }
  std::uint8_t header[12];
  std::memcpy(header, &json_size, 4);
  std::memcpy(header + 4, &byte_count, 8);
  FETTLE_RETURN_IF_ERROR(SendAll(fd, header, deadline));
  FETTLE_RETURN_IF_ERROR(
      SendAll(fd, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, deadline));
  for (const auto& part : bytes) FETTLE_RETURN_IF_ERROR(SendAll(fd, part, deadline));
  return absl::OkStatus();
}

absl::StatusOr<Frame> ReadFrame(int fd, FrameClock::time_point deadline) {
  std::uint8_t header[12];
  FETTLE_RETURN_IF_ERROR(ReceiveAll(fd, header, deadline));
  std::uint32_t json_size = 0;
  std::uint64_t byte_count = 0;
  std::memcpy(&json_size, header, 4);
  std::memcpy(&byte_count, header + 4, 8);
  if (json_size > kMaxJson || byte_count > kMaxBytes) {
    return absl::InvalidArgumentError("a message from the other side is over the limit");
  }
  std::vector<std::uint8_t> text(json_size);
  FETTLE_RETURN_IF_ERROR(ReceiveAll(fd, text, deadline));
  Frame frame;
  frame.json = ParseJson({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!frame.json.is_object()) {
    return absl::InvalidArgumentError("a message from the other side is not a JSON object");
  }
  frame.bytes.resize(byte_count);
  FETTLE_RETURN_IF_ERROR(ReceiveAll(fd, frame.bytes, deadline));
  return frame;
}

}  // namespace fettle
