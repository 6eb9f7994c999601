// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fettle {

// One server-sent event; `event` is empty where the server named none.
struct SseEvent {
  std::string event;
  std::string data;
};

// Splits a byte stream into server-sent events (WHATWG HTML, "Server-sent events"): lines end with
// LF, CR or CRLF, an empty line ends an event, comments and unknown fields are dropped. Bytes may
// arrive cut anywhere. Not thread-safe.
class SseParser {
 public:
  // Events that `bytes` completes. An unfinished event is kept for the next call and lost at the
  // stream's end, as the standard wants.
  std::vector<SseEvent> Feed(std::string_view bytes);
  // Bytes held for an unfinished event.
  std::size_t pending_bytes() const { return line_.size() + current_.data.size(); }

 private:
  void EndLine(std::vector<SseEvent>& events);

  std::string line_;
  SseEvent current_;
  bool has_data_ = false;
  bool after_cr_ = false;  // The last byte was CR: an LF right after it belongs to it.
};

// Replaces each invalid UTF-8 sequence by U+FFFD, so that a cut or mangled character cannot make a
// whole event unreadable.
std::string RepairUtf8(std::string_view bytes);

}  // namespace fettle
