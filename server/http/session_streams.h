// SPDX-License-Identifier: Apache-2.0
#pragma once

// Streams end with the session that opened them.

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "server/http/message.h"

namespace fettle {

// Thread-safe.
class SessionStreams {
 public:
  // `source` behind a check: once `open` is false the stream closes. It is asked whenever the
  // client took what was written, a silent stream's beats included, and by CloseEnded. Thread-safe,
  // must not block.
  std::shared_ptr<HttpStreamSource> Guard(std::shared_ptr<HttpStream> stream,
                                          std::shared_ptr<HttpStreamSource> source,
                                          std::function<bool()> open);
  // Call once a session was ended: its streams close at once.
  void CloseEnded();

 private:
  class Guarded;

  std::mutex mutex_;
  std::vector<std::weak_ptr<Guarded>> streams_;  // Guarded by mutex_.
};

}  // namespace fettle
