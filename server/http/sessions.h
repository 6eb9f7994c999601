// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who is at the dashboard. A browser logs in once with a secret and then carries a signed cookie; a
// program sends its token with each call.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "server/access.h"

namespace fettle {

struct Session {
  std::string id;     // Of a browser's session; empty for a program.
  std::string name;   // Of the token, or "login link".
  std::string token;  // SHA-256 of the token that it came from; empty: the login link.
  AccessRole role = AccessRole::kRead;
  std::int64_t expires_ns = 0;
};

// Thread-safe.
class Sessions {
 public:
  // Reads the key that signs cookies from `data_dir`, or makes it (mode 0600): sessions outlive a
  // restart, and end when the file is removed. `access` outlives this object.
  static absl::StatusOr<std::unique_ptr<Sessions>> Open(const std::string& data_dir,
                                                        const std::string& data_dir_id,
                                                        const Access& access);

  // The secret of the login link; drawn anew at each start.
  const std::string& login_secret() const { return login_secret_; }
  const std::string& cookie_name() const { return cookie_name_; }

  // A new session for the login link's secret or a token that may read. kUnauthenticated otherwise.
  absl::StatusOr<Session> LogIn(std::string_view secret, std::int64_t now_ns) const;
  std::string Cookie(const Session& session) const;
  // The session of a cookie's value: signed by this server, not expired, not ended, and its token
  // still known.
  std::optional<Session> FromCookie(std::string_view value, std::int64_t now_ns) const;
  // Of an Authorization header. kUnauthenticated: unknown.
  absl::StatusOr<Session> FromBearer(std::string_view authorization) const;
  // Whether it has neither expired nor been ended. A program's never does.
  bool IsOpen(const Session& session, std::int64_t now_ns) const;
  // Ends a session, also over a restart: its id is kept until it would have expired. Errors: of
  // writing the file; it has then ended until the server stops.
  absl::Status End(const Session& session, std::int64_t now_ns);
  // Proves that a write comes from a page of this session.
  std::string CsrfToken(const Session& session) const;

 private:
  Sessions(std::string key, std::string ended_path, const std::string& data_dir_id,
           const Access& access);
  absl::Status ReadEnded();
  std::string Sign(std::string_view text) const;

  const std::string key_;
  const std::string ended_path_;
  const std::string login_secret_;
  const std::string cookie_name_;
  const Access& access_;
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t> ended_;  // Guarded by mutex_. When those would expire, by id.
};

}  // namespace fettle
