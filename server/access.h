// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who may call what. On the unix socket the file's mode decides; on TCP every call needs a token.

#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/server_context.h>

namespace fettle {

// What a call needs. A token's role grants: read: read. propose: read and propose. operate: read,
// propose and operate. worker: worker.
enum class AccessRole { kRead, kPropose, kOperate, kWorker };

struct Token {
  std::string name;
  AccessRole role = AccessRole::kRead;
  std::string sha256;  // Of the token, lower-case hex; the token itself is stored nowhere.
};

const char* RoleName(AccessRole role);
// Whether a token of role `has` may do what needs `needed`.
bool Grants(AccessRole has, AccessRole needed);
// 192 random bits as hex.
std::string NewToken();

class JobTokens;

class Access {
 public:
  Access() = default;
  explicit Access(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Reads {"tokens": [{"name", "role", "sha256" | "token"}]}. kPermissionDenied: others may read
  // the file. kInvalidArgument names the entry and field. kNotFound: no such file.
  static absl::StatusOr<Access> Load(const std::string& path);

  // kUnauthenticated: no token, or an unknown one. kPermissionDenied: its role does not suffice.
  absl::Status Check(const grpc::CallbackServerContext& context, AccessRole needed) const;
  // As Check, for a call about one job: a propose token for that job opens it too.
  absl::Status CheckJob(const grpc::CallbackServerContext& context, AccessRole needed,
                        const std::string& job_id) const;
  // `tokens` must outlive this object.
  void UseJobTokens(const JobTokens& tokens) { job_tokens_ = &tokens; }
  // `tokens` must outlive this object.
  void UseWorkerTokens(const JobTokens& tokens) { worker_tokens_ = &tokens; }
  // The job that the caller, a worker, serves alone; empty: any.
  std::string WorkerJob(const grpc::CallbackServerContext& context) const;
  // As Check, for a peer and the value of its authorization header ("Bearer ...").
  absl::Status CheckPeer(const std::string& peer, const std::string& authorization,
                         AccessRole needed) const;
  // The token whose SHA-256 is `digest`; null: none.
  const Token* Find(std::string_view digest) const;

 private:
  std::vector<Token> tokens_;
  const JobTokens* job_tokens_ = nullptr;
  const JobTokens* worker_tokens_ = nullptr;
};

// Creates the token file of a data folder with one token for operators and one for workers, left in
// operate.token and worker.token beside it (mode 0600). An existing token file stays as it is.
// Returns its path.
absl::StatusOr<std::string> EnsureTokenFile(const std::string& data_dir);

}  // namespace fettle
