// SPDX-License-Identifier: Apache-2.0
#include "worker/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr std::array<char, 4> kMagic = {'F', 'T', 'L', '1'};
constexpr std::size_t kPrefixBytes = 8;  // Magic, then the header's length, little endian.
constexpr std::chrono::milliseconds kSlice{50};

std::string ErrnoText(const char* what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

// Waits until `events` are ready on the socket.
absl::Status WaitReady(int socket, short events, Time deadline, const WaitCheck& check) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const auto slice =
        std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(0), kSlice);
    pollfd entry{socket, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(slice.count()));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return absl::InternalError(ErrnoText("poll"));
    if (check) FETTLE_RETURN_IF_ERROR(check());
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError("no answer from the runner in time");
    }
  }
}

absl::Status SendBytes(int socket, std::span<const char> bytes, int bulk, Time deadline) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{const_cast<char*>(bytes.data()) + sent, bytes.size() - sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (bulk >= 0 && sent == 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* attached = CMSG_FIRSTHDR(&message);
      attached->cmsg_level = SOL_SOCKET;
      attached->cmsg_type = SCM_RIGHTS;
      attached->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(attached), &bulk, sizeof(int));
    }
    const ssize_t count = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      FETTLE_RETURN_IF_ERROR(WaitReady(socket, POLLOUT, deadline, {}));
    } else if (errno != EINTR) {
      return absl::AbortedError(ErrnoText("send to the runner"));
    }
  }
  return absl::OkStatus();
}

// Takes the descriptors of a received message: keeps the first in `bulk`, closes the others.
void TakeDescriptors(msghdr& message, UniqueFd& bulk) {
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof fd);
      UniqueFd owned(fd);
      if (!bulk.valid()) bulk = std::move(owned);
    }
  }
}

absl::Status ReceiveBytes(int socket, std::span<char> to, UniqueFd* bulk, Time deadline,
                          const WaitCheck& check) {
  std::size_t got = 0;
  while (got < to.size()) {
    iovec part{to.data() + got, to.size() - got};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    // Without room for control data the kernel closes any descriptor sent along.
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (bulk != nullptr) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
    }
    const ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count > 0) {
      if (bulk != nullptr) TakeDescriptors(message, *bulk);
      got += static_cast<std::size_t>(count);
    } else if (count == 0) {
      return absl::AbortedError("the runner closed its channel");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      FETTLE_RETURN_IF_ERROR(WaitReady(socket, POLLIN, deadline, check));
    } else if (errno != EINTR) {
      return absl::AbortedError(ErrnoText("receive from the runner"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

absl::StatusOr<UniqueFd> MakeBulk(std::span<const std::string_view> pieces, std::int64_t size) {
  UniqueFd fd(memfd_create("fettle-bulk", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return absl::InternalError(ErrnoText("memfd_create"));
  if (ftruncate(fd.get(), size) != 0) return absl::ResourceExhaustedError(ErrnoText("ftruncate"));
  std::int64_t offset = 0;
  for (const std::string_view piece : pieces) {
    FETTLE_RETURN_IF_ERROR(WriteBulk(
        fd.get(), offset, {reinterpret_cast<const std::uint8_t*>(piece.data()), piece.size()}));
    offset += static_cast<std::int64_t>(piece.size());
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::InternalError(ErrnoText("seal memory file"));
  }
  return fd;
}

absl::Status ReadBulk(int fd, std::int64_t offset, std::span<std::uint8_t> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t count = pread(fd, to.data() + done, to.size() - done,
                                static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (count == 0) {
      return absl::InvalidArgumentError(fmt::format("memory file ends before byte {}",
                                                    offset + static_cast<std::int64_t>(to.size())));
    } else if (errno != EINTR) {
      return absl::InternalError(ErrnoText("read memory file"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteBulk(int fd, std::int64_t offset, std::span<const std::uint8_t> from) {
  std::size_t done = 0;
  while (done < from.size()) {
    const ssize_t count = pwrite(fd, from.data() + done, from.size() - done,
                                 static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (count == 0 || errno == EPERM) {
      return absl::InvalidArgumentError("memory file is too short for what is written");
    } else if (errno != EINTR) {
      return absl::ResourceExhaustedError(ErrnoText("write memory file"));
    }
  }
  return absl::OkStatus();
}

absl::Status SendMessage(int socket, const nlohmann::json& header, int bulk, Time deadline) {
  const std::string text = header.dump(-1, ' ', false, kReplaceInvalid);
  if (text.size() > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        fmt::format("message of {} bytes exceeds the channel's {}", text.size(), kMaxHeaderBytes));
  }
  std::string frame(kMagic.begin(), kMagic.end());
  const auto size = static_cast<std::uint32_t>(text.size());
  for (int i = 0; i < 4; ++i) frame.push_back(static_cast<char>((size >> (8 * i)) & 0xff));
  frame += text;
  return SendBytes(socket, frame, bulk, deadline);
}

absl::StatusOr<ChannelMessage> ReceiveMessage(int socket, bool accept_bulk, Time deadline,
                                              const WaitCheck& check) {
  ChannelMessage message;
  UniqueFd* bulk = accept_bulk ? &message.bulk : nullptr;
  std::array<char, kPrefixBytes> prefix{};
  FETTLE_RETURN_IF_ERROR(ReceiveBytes(socket, prefix, bulk, deadline, check));
  std::uint32_t size = 0;
  for (int i = 3; i >= 0; --i) {
    size = (size << 8) | static_cast<unsigned char>(prefix[static_cast<std::size_t>(4 + i)]);
  }
  if (!std::equal(kMagic.begin(), kMagic.end(), prefix.begin()) || size > kMaxHeaderBytes) {
    return absl::InvalidArgumentError("the other side of the channel does not follow the protocol");
  }
  // Grows with what arrives, so a false length costs nothing.
  std::string text;
  while (text.size() < size) {
    const std::size_t at = text.size();
    text.resize(std::min<std::size_t>(size, at + (1u << 20)));
    FETTLE_RETURN_IF_ERROR(
        ReceiveBytes(socket, std::span(text).subspan(at), bulk, deadline, check));
  }
  message.header = ParseJson(text);
  if (!message.header.is_object()) {
    return absl::InvalidArgumentError("a message on the channel is not a JSON object");
  }
  return message;
}

}  // namespace fettle
