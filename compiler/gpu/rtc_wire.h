// SPDX-License-Identifier: Apache-2.0
#pragma once

// What fettle and its compile server (fettle-compiled) say to each other over unix sockets. A
// message is a list of strings, each with its length before it. The server is a small program of
// its own, so this header needs nothing but the standard library.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fettle::rtc {

using Strings = std::vector<std::string>;

// One compile.
struct Request {
  std::string name;  // Of the program: what diagnostics call it.
  std::string source;
  // Lines before the source that the server precompiles (ForkServer::Prepare); empty: none.
  std::string prefix;
  Strings header_names, header_texts;
  Strings options;
  Strings entries;  // Name expressions.
  bool want_ptx = false;
  std::int64_t cpu_seconds = 60, wall_seconds = 60;
  std::int64_t address_space_bytes = 0, file_bytes = 0;
};

struct Reply {
  int code = 0;           // The library's result; 0: compiled.
  std::string code_name;  // Its name.
  std::string log, object;
  Strings symbols;  // Of the entries; empty where the library knows none.
};

// How the child that compiled ended, and what it answered if it did.
struct Ending {
  std::optional<Reply> reply;
  int wait_status = 0;
};

// What a server says when it has loaded its library; `problem` is empty when it can compile.
struct Hello {
  std::string problem;
  std::string library, version;  // File that was loaded; "13.0".
  Strings more_libraries;        // Others that take part (comgr, builtins).
  Strings archs;                 // "sm_90", "gfx950"; empty: unknown.
};

std::string Pack(const Request& request);
std::string Pack(const Reply& reply);
std::string Pack(const Hello& hello);
// False: damaged.
bool Unpack(std::string_view bytes, Request& request);
bool Unpack(std::string_view bytes, Reply& reply);
bool Unpack(std::string_view bytes, Hello& hello);

// A frame: kind, length, bytes. False: the other side is gone.
enum class Frame : std::uint32_t { kHello = 1, kRequest = 2, kReply = 3, kEnd = 4 };
bool WriteFrame(int fd, Frame kind, std::string_view bytes);
// nullopt: closed or damaged. Blocks.
struct ReceivedFrame {
  Frame kind;
  std::string bytes;
};
std::optional<ReceivedFrame> ReadFrame(int fd);

// What the request that follows on a descriptor is for.
enum class Purpose : char { kCompile = 'c', kPrepare = 'p' };
// Hands a descriptor to the process at the other end of a socket.
bool SendDescriptor(int socket, int fd, Purpose purpose);
// -1: closed or damaged.
int ReceiveDescriptor(int socket, Purpose& purpose);

}  // namespace fettle::rtc
