// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/rtc_wire.h"

#include <cerrno>
#include <charconv>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fettle::rtc {
namespace {

// More than any code object; a damaged length ends here.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

class Packer {
 public:
  void Add(std::string_view text) {
    AddSize(text.size());
    bytes_.append(text);
  }
  void Add(std::int64_t number) { Add(std::to_string(number)); }
  void Add(const Strings& list) {
    AddSize(list.size());
    for (const std::string& text : list) Add(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  void AddSize(std::uint64_t size) {
    bytes_.append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  void Get(std::string& text) {
    const std::uint64_t size = GetSize();
    if (size > rest_.size()) {
      Fail();
      return;
    }
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  template <typename Integer>
  void GetNumber(Integer& number) {
    std::string text;
    Get(text);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) Fail();
  }
  void Get(Strings& list) {
    std::uint64_t count = GetSize();
    if (count > rest_.size()) Fail();
    while (ok_ && count-- > 0) Get(list.emplace_back());
  }
  bool Finished() const { return ok_ && rest_.empty(); }

 private:
  std::uint64_t GetSize() {
    std::uint64_t size = 0;
    if (rest_.size() < sizeof size) {
      Fail();
      return 0;
    }
    std::memcpy(&size, rest_.data(), sizeof size);
    rest_.remove_prefix(sizeof size);
    return size;
  }
  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  std::string_view rest_;
  bool ok_ = true;
};

bool WriteAll(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool ReadAll(int fd, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = read(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

struct FrameHead {
  std::uint32_t kind = 0;
  std::uint32_t unused = 0;
  std::uint64_t size = 0;
};

}  // namespace

std::string Pack(const Request& request) {
  Packer packer;
  packer.Add(request.name);
  packer.Add(request.source);
  packer.Add(request.prefix);
  packer.Add(request.header_names);
  packer.Add(request.header_texts);
  packer.Add(request.options);
  packer.Add(request.entries);
  packer.Add(std::int64_t{request.want_ptx});
  packer.Add(request.cpu_seconds);
  packer.Add(request.wall_seconds);
  packer.Add(request.address_space_bytes);
  packer.Add(request.file_bytes);
  return packer.Take();
}

bool Unpack(std::string_view bytes, Request& request) {
  Unpacker in(bytes);
  in.Get(request.name);
  in.Get(request.source);
  in.Get(request.prefix);
  in.Get(request.header_names);
  in.Get(request.header_texts);
  in.Get(request.options);
  in.Get(request.entries);
  std::int64_t want_ptx = 0;
  in.GetNumber(want_ptx);
  request.want_ptx = want_ptx != 0;
  in.GetNumber(request.cpu_seconds);
  in.GetNumber(request.wall_seconds);
  in.GetNumber(request.address_space_bytes);
  in.GetNumber(request.file_bytes);
  return in.Finished() && request.header_names.size() == request.header_texts.size();
}

std::string Pack(const Reply& reply) {
  Packer packer;
  packer.Add(std::int64_t{reply.code});
  packer.Add(reply.code_name);
  packer.Add(reply.log);
  packer.Add(reply.object);
  packer.Add(reply.symbols);
  return packer.Take();
}

bool Unpack(std::string_view bytes, Reply& reply) {
  Unpacker in(bytes);
  in.GetNumber(reply.code);
  in.Get(reply.code_name);
  in.Get(reply.log);
  in.Get(reply.object);
  in.Get(reply.symbols);
  return in.Finished();
}

std::string Pack(const Hello& hello) {
  Packer packer;
  packer.Add(hello.problem);
  packer.Add(hello.library);
  packer.Add(hello.version);
  packer.Add(hello.more_libraries);
  packer.Add(hello.archs);
  return packer.Take();
}

bool Unpack(std::string_view bytes, Hello& hello) {
  Unpacker in(bytes);
  in.Get(hello.problem);
  in.Get(hello.library);
  in.Get(hello.version);
  in.Get(hello.more_libraries);
  in.Get(hello.archs);
  return in.Finished();
}

bool WriteFrame(int fd, Frame kind, std::string_view bytes) {
  const FrameHead head{.kind = static_cast<std::uint32_t>(kind), .size = bytes.size()};
  return WriteAll(fd, reinterpret_cast<const char*>(&head), sizeof head) &&
         WriteAll(fd, bytes.data(), bytes.size());
}

std::optional<ReceivedFrame> ReadFrame(int fd) {
  FrameHead head;
  if (!ReadAll(fd, reinterpret_cast<char*>(&head), sizeof head)) return std::nullopt;
  if (head.size > kMaxBytes || head.kind < 1 || head.kind > 4) return std::nullopt;
  ReceivedFrame frame{static_cast<Frame>(head.kind), std::string(head.size, '\0')};
  if (!ReadAll(fd, frame.bytes.data(), frame.bytes.size())) return std::nullopt;
  return frame;
}

bool SendDescriptor(int socket, int fd, Purpose purpose) {
  char byte = static_cast<char>(purpose);
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

int ReceiveDescriptor(int socket, Purpose& purpose) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* head = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return -1;
  purpose = static_cast<Purpose>(byte);
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return fd;
}

}  // namespace fettle::rtc
