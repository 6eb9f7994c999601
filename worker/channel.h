// SPDX-License-Identifier: Apache-2.0
#pragma once

// Messages between the worker and its runner over a socket pair: a JSON header and bulk bytes.
//
// Bulk bytes travel in a memory file that the worker makes, sizes and seals, so a hostile runner
// can neither send descriptors nor shrink what the worker reads. A request carries its bytes in;
// for the answer the worker leaves room (`answer_bytes`), which the runner fills.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>
#include <sys/types.h>

namespace fettle {

// An owned file descriptor; -1: none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(-1); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void Reset(int fd);

 private:
  int fd_ = -1;
};

// The largest header either side accepts.
inline constexpr std::size_t kMaxHeaderBytes = 64u << 20;

// A message as received.
struct ChannelMessage {
  nlohmann::json header;
  UniqueFd bulk;  // Runner side only: the memory file of the request; invalid where there is none.
};

// kInternal: no memory file could be made. The file holds `bytes` and is `size` long, sealed.
absl::StatusOr<UniqueFd> MakeBulk(std::span<const std::string_view> pieces, std::int64_t size);

// Reads `size` bytes at `offset`. kInvalidArgument: the file is shorter.
absl::Status ReadBulk(int fd, std::int64_t offset, std::span<std::uint8_t> to);
absl::Status WriteBulk(int fd, std::int64_t offset, std::span<const std::uint8_t> from);

// Sends one message; `bulk` (-1: none) is passed along and stays the caller's. Waits until
// `deadline` for room.
//   kAborted the other side closed; kDeadlineExceeded
absl::Status SendMessage(int socket, const nlohmann::json& header, int bulk,
                         std::chrono::steady_clock::time_point deadline);

// Called at least every 50 ms while waiting; a status other than OK ends the wait with it.
using WaitCheck = std::function<absl::Status()>;

// Receives one message. Bytes from the other side are not trusted.
//   kAborted            the other side closed (between or within messages)
//   kDeadlineExceeded   nothing whole by `deadline`
//   kInvalidArgument    not a message: too large, or not a JSON object
absl::StatusOr<ChannelMessage> ReceiveMessage(int socket, bool accept_bulk,
                                              std::chrono::steady_clock::time_point deadline,
                                              const WaitCheck& check);

}  // namespace fettle
