// SPDX-License-Identifier: Apache-2.0
#include "server/http/sessions.h"

#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "core/base64.h"
#include "core/digest.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/channel.h"
#include "store/files.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr char kKeyFile[] = "dashboard.key";
constexpr char kEndedFile[] = "dashboard.ended";  // {"id": expires_ns} of sessions that were ended.
constexpr std::string_view kBearer = "Bearer ";
constexpr std::chrono::hours kLifetime{24 * 30};

absl::Status NotKnown() {
  return absl::UnauthenticatedError(
      "the token is not known to this server; open the link that `fettle serve` printed");
}

// Cookies allow no '=', '+' or '/' everywhere: RFC 4648's URL alphabet, without padding.
std::string ToCookieText(std::string text) {
  while (!text.empty() && text.back() == '=') text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

std::string FromCookieText(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c == '-' ? '+' : c == '_' ? '/' : c;
  while (out.size() % 4 != 0) out += '=';
  return out;
}

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

Sessions::Sessions(std::string key, std::string ended_path, const std::string& data_dir_id,
                   const Access& access)
    : key_(std::move(key)),
      ended_path_(std::move(ended_path)),
      login_secret_(NewToken()),
      cookie_name_("fettle_" + data_dir_id.substr(0, 8)),
      access_(access) {}

absl::StatusOr<std::unique_ptr<Sessions>> Sessions::Open(const std::string& data_dir,
                                                         const std::string& data_dir_id,
                                                         const Access& access) {
  const std::string path = data_dir + "/" + kKeyFile;
  absl::StatusOr<std::string> key = ReadSecretFile(path);
  if (absl::IsNotFound(key.status())) {
    key = NewToken();
    FETTLE_RETURN_IF_ERROR(WriteFileDurably(path, *key));
  }
  FETTLE_RETURN_IF_ERROR(key.status());
  if (key->size() < 32) {
    return absl::DataLossError(
        fmt::format("read {}: too short to sign with; remove it, and a new one is made", path));
  }
  std::unique_ptr<Sessions> sessions(
      new Sessions(*std::move(key), data_dir + "/" + kEndedFile, data_dir_id, access));
  FETTLE_RETURN_IF_ERROR(sessions->ReadEnded());
  return sessions;
}

absl::Status Sessions::ReadEnded() {
  const absl::StatusOr<std::string> text = ReadWholeFile(ended_path_);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  FETTLE_RETURN_IF_ERROR(text.status());
  const Json ended = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const std::lock_guard lock(mutex_);
  for (const auto& [id, expires_ns] : ended.items()) {
    if (expires_ns.is_number_integer()) ended_[id] = expires_ns.get<std::int64_t>();
  }
  if (ended.is_object()) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("read {}: not what it was written as; remove it and {}, which ends all sessions",
                  ended_path_, kKeyFile));
}

std::string Sessions::Sign(std::string_view text) const {
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  FETTLE_CHECK(HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac,
                    &size) != nullptr);
  return ToCookieText(Base64Encode({reinterpret_cast<const char*>(mac), size}));
}

absl::StatusOr<Session> Sessions::LogIn(std::string_view secret, std::int64_t now_ns) const {
  Session session;
  session.id = NewToken();
  session.expires_ns =
      now_ns + std::chrono::duration_cast<std::chrono::nanoseconds>(kLifetime).count();
  if (SameSecret(secret, login_secret_)) {
    session.name = "login link";
    session.role = AccessRole::kOperate;
    return session;
  }
  const Token* token = access_.Find(Sha256Hex(secret));
  if (token == nullptr || !Grants(token->role, AccessRole::kRead)) return NotKnown();
  session.name = token->name;
  session.token = token->sha256;
  session.role = token->role;
  return session;
}

std::string Sessions::Cookie(const Session& session) const {
  const Json payload = {{"id", session.id},
                        {"name", session.name},
                        {"token", session.token},
                        {"role", RoleName(session.role)},
                        {"expires_ns", session.expires_ns}};
  const std::string text =
      ToCookieText(Base64Encode(payload.dump(-1, ' ', false, kReplaceInvalid)));
  return text + "." + Sign(text);
}

std::optional<Session> Sessions::FromCookie(std::string_view value, std::int64_t now_ns) const {
  const auto dot = value.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  if (!SameSecret(value.substr(dot + 1), Sign(value.substr(0, dot)))) return std::nullopt;
  const absl::StatusOr<std::string> text = Base64Decode(FromCookieText(value.substr(0, dot)));
  if (!text.ok()) return std::nullopt;
  const Json payload = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!payload.is_object()) return std::nullopt;  // Signed by us, so its fields are as written.
  Session session;
  session.id = payload.value("id", "");
  session.name = payload.value("name", "");
  session.token = payload.value("token", "");
  session.expires_ns = payload.value("expires_ns", std::int64_t{0});
  if (!IsOpen(session, now_ns)) return std::nullopt;
  if (session.token.empty()) {
    session.role = AccessRole::kOperate;
  } else {
    const Token* token = access_.Find(session.token);
    if (token == nullptr || !Grants(token->role, AccessRole::kRead)) return std::nullopt;
    session.role = token->role;
  }
  return session;
}

absl::StatusOr<Session> Sessions::FromBearer(std::string_view authorization) const {
  if (authorization.substr(0, kBearer.size()) != kBearer) return NotKnown();
  const Token* token = access_.Find(Sha256Hex(authorization.substr(kBearer.size())));
  if (token == nullptr) return NotKnown();
  Session session;
  session.name = token->name;
  session.token = token->sha256;
  session.role = token->role;
  return session;
}

bool Sessions::IsOpen(const Session& session, std::int64_t now_ns) const {
  if (session.id.empty()) return true;
  const std::lock_guard lock(mutex_);
  return session.expires_ns > now_ns && !ended_.contains(session.id);
}

absl::Status Sessions::End(const Session& session, std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ended_, [now_ns](const auto& one) { return one.second <= now_ns; });
  ended_[session.id] = session.expires_ns;
  return WriteFileDurably(ended_path_, Json(ended_).dump());
}

std::string Sessions::CsrfToken(const Session& session) const { return Sign("csrf:" + session.id); }

}  // namespace fettle
