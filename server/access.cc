// SPDX-License-Identifier: Apache-2.0
#include "server/access.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/random.h>

#include "core/digest.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/channel.h"
#include "server/job_tokens.h"
#include "store/files.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBearer = "Bearer ";
constexpr std::size_t kTokenBytes = 24;

// Takes the same time wherever the first difference is. Digests of equal length.
bool SameDigest(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i])) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

absl::Status ParseToken(const Json& entry, const std::string& where, Token& token) {
  const auto bad = [&](const char* what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", where, what));
  };
  if (!entry.is_object()) return bad("must be an object");
  token.name = TextOf(entry, "name");
  const std::string role = TextOf(entry, "role");
  bool known = false;
  for (const AccessRole one :
       {AccessRole::kRead, AccessRole::kPropose, AccessRole::kOperate, AccessRole::kWorker}) {
    if (role != RoleName(one)) continue;
    token.role = one;
    known = true;
  }
  if (!known) return bad("role must be read, propose, operate or worker");
  token.sha256 = TextOf(entry, "sha256");
  if (const std::string plain = TextOf(entry, "token"); !plain.empty()) {
    token.sha256 = Sha256Hex(plain);
  }
  if (token.sha256.size() != 64) return bad("needs sha256 (64 hex digits) or token");
  return absl::OkStatus();
}

std::string Authorization(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) return "";
  return std::string(found->second.data(), found->second.size());
}

bool IsJobToken(JobTokenKind kind, std::string_view authorization) {
  return authorization.starts_with(kBearer) &&
         authorization.substr(kBearer.size()).starts_with(JobTokens::PrefixOf(kind));
}

absl::Status UnknownToken() {
  return absl::UnauthenticatedError("the token is not known to this server");
}

}  // namespace

bool Grants(AccessRole has, AccessRole needed) {
  if (has == AccessRole::kWorker || needed == AccessRole::kWorker) return has == needed;
  return static_cast<int>(has) >= static_cast<int>(needed);
}

const char* RoleName(AccessRole role) {
  switch (role) {
    case AccessRole::kRead:
      return "read";
    case AccessRole::kPropose:
      return "propose";
    case AccessRole::kOperate:
      return "operate";
    case AccessRole::kWorker:
      return "worker";
  }
  return "";
}

std::string NewToken() {
  unsigned char bytes[kTokenBytes];
  FETTLE_CHECK(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes));
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

absl::StatusOr<Access> Access::Load(const std::string& path) {
  FETTLE_ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path));
  const Json json = ParseJson(text);
  if (!json.is_object() || !json.contains("tokens") || !json["tokens"].is_array()) {
    return absl::InvalidArgumentError(fmt::format("read {}: must be {{\"tokens\": [...]}}", path));
  }
  std::vector<Token> tokens;
  for (const Json& entry : json["tokens"]) {
    const std::string where = fmt::format("read {}: tokens[{}]", path, tokens.size());
    FETTLE_RETURN_IF_ERROR(ParseToken(entry, where, tokens.emplace_back()));
  }
  return Access(std::move(tokens));
}

absl::Status Access::Check(const grpc::CallbackServerContext& context, AccessRole needed) const {
  return CheckPeer(context.peer(), Authorization(context), needed);
}

absl::Status Access::CheckJob(const grpc::CallbackServerContext& context, AccessRole needed,
                              const std::string& job_id) const {
  const std::string authorization = Authorization(context);
  if (!IsJobToken(JobTokenKind::kPropose, authorization))
    return CheckPeer(context.peer(), authorization, needed);
  const std::optional<std::string> job =
      job_tokens_ == nullptr
          ? std::nullopt
          : job_tokens_->JobOf(std::string_view(authorization).substr(kBearer.size()));
  if (!job.has_value()) return UnknownToken();
  if (*job == job_id && Grants(AccessRole::kPropose, needed)) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format("this propose token is for job {} alone", *job));
}

absl::Status Access::CheckPeer(const std::string& peer, const std::string& authorization,
                               AccessRole needed) const {
  // Whoever shows one asks to be held to it, on the socket too.
  if (IsJobToken(JobTokenKind::kPropose, authorization)) {
    return absl::PermissionDeniedError(
        "a propose token opens the calls about its own job only; use an operator's token");
  }
  if (IsJobToken(JobTokenKind::kWorker, authorization)) {
    if (worker_tokens_ == nullptr ||
        !worker_tokens_->JobOf(std::string_view(authorization).substr(kBearer.size()))) {
      return UnknownToken();
    }
    if (needed == AccessRole::kWorker) return absl::OkStatus();
    return absl::PermissionDeniedError(
        "a worker's token opens the calls of workers only; use an operator's token");
  }
  if (IsUnixEndpoint(peer)) return absl::OkStatus();
  if (authorization.rfind(kBearer, 0) != 0) {
    return absl::UnauthenticatedError(
        "this endpoint needs a token; give --token-file or set FETTLE_TOKEN_FILE");
  }
  const Token* match = Find(Sha256Hex(std::string_view(authorization).substr(kBearer.size())));
  if (match == nullptr) return UnknownToken();
  if (Grants(match->role, needed)) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format("token {} has role {}; this call needs {}",
                                                 match->name, RoleName(match->role),
                                                 RoleName(needed)));
}

std::string Access::WorkerJob(const grpc::CallbackServerContext& context) const {
  const std::string authorization = Authorization(context);
  if (worker_tokens_ == nullptr || !IsJobToken(JobTokenKind::kWorker, authorization)) return "";
  return worker_tokens_->JobOf(std::string_view(authorization).substr(kBearer.size())).value_or("");
}

const Token* Access::Find(std::string_view digest) const {
  const Token* match = nullptr;
  for (const Token& token : tokens_) {  // All of them, so that the time tells nothing.
    if (SameDigest(digest, token.sha256)) match = &token;
  }
  return match;
}

absl::StatusOr<std::string> EnsureTokenFile(const std::string& data_dir) {
  const std::string path = data_dir + "/tokens.json";
  const absl::StatusOr<std::string> existing = ReadSecretFile(path);
  if (existing.ok()) return path;
  if (!absl::IsNotFound(existing.status())) return existing.status();
  Json tokens = Json::array();
  for (const AccessRole role : {AccessRole::kOperate, AccessRole::kWorker}) {
    const std::string token = NewToken();
    FETTLE_RETURN_IF_ERROR(
        WriteFileDurably(fmt::format("{}/{}.token", data_dir, RoleName(role)), token + "\n"));
    tokens.push_back(
        {{"name", RoleName(role)}, {"role", RoleName(role)}, {"sha256", Sha256Hex(token)}});
  }
  FETTLE_RETURN_IF_ERROR(
      WriteFileDurably(path, Json{{"tokens", tokens}}.dump(2, ' ', false, kReplaceInvalid) + "\n"));
  return path;
}

}  // namespace fettle
