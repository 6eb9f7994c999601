// SPDX-License-Identifier: Apache-2.0
#include "proto/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <absl/strings/cord.h>
#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_interceptor.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "core/json_text.h"

namespace fettle {
namespace {

constexpr char kErrorCodeUrl[] = "fettle/error-code";
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kMaxReconnectBackoffMs = 2'000;
constexpr int kConnectTimeoutMs = 10'000;
// gRPC asks for a host's addresses again before it connects again, by default twice a minute.
constexpr int kResolvePauseMs = 500;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string UserFolder(const char* variable, const char* below_home) {
  if (std::string folder = Environment(variable); !folder.empty()) return folder + "/fettle";
  const std::string home = Environment("HOME");
  return (home.empty() ? "." : home) + below_home;
}

std::string HostOf(const std::string& endpoint) {
  const auto colon = endpoint.rfind(':');
  std::string host = colon == std::string::npos ? endpoint : endpoint.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// Adds the token to every call; unlike call credentials it also works without TLS (loopback).
class TokenInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(std::string value) : value_(std::move(value)) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", value_);
    }
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class TokenInterceptorFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptorFactory(const std::string& token) : value_("Bearer " + token) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new TokenInterceptor(value_);  // gRPC owns it.
  }

 private:
  const std::string value_;
};

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return absl::NotFoundError(fmt::format("read {}: {}", path, std::strerror(errno)));
  }
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string StripSpace(std::string text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

struct NamedField {
  const char* key;
  const char* variable;
  std::string EndpointOptions::*member;
};
constexpr NamedField kFields[] = {
    {"endpoint", "FETTLE_ENDPOINT", &EndpointOptions::endpoint},
    {"token", "FETTLE_TOKEN", &EndpointOptions::token},
    {"token_file", "FETTLE_TOKEN_FILE", &EndpointOptions::token_file},
    {"ca_file", "FETTLE_CA_FILE", &EndpointOptions::ca_file},
    {"server_name", "FETTLE_SERVER_NAME", &EndpointOptions::server_name},
};

absl::Status FillFromFile(EndpointOptions& options) {
  std::string path = Environment("FETTLE_CLIENT_CONFIG");
  const bool named = !path.empty();
  if (!named) path = UserFolder("XDG_CONFIG_HOME", "/.config/fettle") + "/client.json";
  const absl::StatusOr<std::string> text = ReadSecretFile(path);
  if (absl::IsNotFound(text.status()) && !named) return absl::OkStatus();
  if (!text.ok()) return text.status();
  const nlohmann::json json = ParseJson(*text);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(fmt::format("read {}: not a JSON object", path));
  }
  for (const auto& [key, value] : json.items()) {
    const NamedField* field = nullptr;
    for (const NamedField& known : kFields) {
      if (key == known.key) field = &known;
    }
    if (field == nullptr || !value.is_string()) {
      return absl::InvalidArgumentError(fmt::format(
          "read {}: field {}: not a known text field (endpoint, token, token_file, ca_file, "
          "server_name)",
          path, key));
    }
    std::string& target = options.*(field->member);
    // A token given nearer to the call wins over a token file named here.
    const bool shadowed = key == "token_file" && !options.token.empty();
    if (target.empty() && !shadowed) target = value.get<std::string>();
  }
  return absl::OkStatus();
}

}  // namespace

std::string DefaultDataDir() {
  if (std::string folder = Environment("FETTLE_DATA_DIR"); !folder.empty()) return folder;
  return UserFolder("XDG_DATA_HOME", "/.local/share/fettle");
}

std::string SocketEndpoint(const std::string& data_dir) {
  return "unix:" + data_dir + "/fettle.sock";
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::Status(
        errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kPermissionDenied,
        fmt::format("read {}: {}", path, std::strerror(errno)));
  }
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(fmt::format(
        "read {}: others may read it (mode {:o}); run chmod 600 on it", path, info.st_mode & 0777));
  }
  return ReadFile(path);
}

absl::StatusOr<EndpointOptions> ResolveEndpoint(EndpointOptions flags) {
  EndpointOptions options = std::move(flags);
  for (const NamedField& field : kFields) {
    std::string& target = options.*(field.member);
    const bool shadowed = field.member == &EndpointOptions::token_file && !options.token.empty();
    const bool other = field.member == &EndpointOptions::token && !options.token_file.empty();
    if (target.empty() && !shadowed && !other) target = Environment(field.variable);
  }
  if (absl::Status filled = FillFromFile(options); !filled.ok()) return filled;
  if (options.endpoint.empty()) options.endpoint = SocketEndpoint(DefaultDataDir());
  if (options.token.empty() && !options.token_file.empty()) {
    absl::StatusOr<std::string> token = ReadSecretFile(options.token_file);
    if (!token.ok()) return token.status();
    options.token = StripSpace(*std::move(token));
  }
  return options;
}

bool IsUnixEndpoint(const std::string& endpoint) { return endpoint.rfind("unix:", 0) == 0; }

bool IsLoopbackEndpoint(const std::string& endpoint) {
  const std::string host = HostOf(endpoint);
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const EndpointOptions& options) {
  const bool local = IsUnixEndpoint(options.endpoint);
  if (!local && options.endpoint.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("endpoint '{}': write unix:/path/to/socket or host:port", options.endpoint));
  }
  if (!local && options.token.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("endpoint {}: TCP needs a token; give --token-file or set FETTLE_TOKEN_FILE",
                    options.endpoint));
  }
  // It travels in a header; gRPC ends the process over anything else.
  if (!std::all_of(options.token.begin(), options.token.end(),
                   [](char c) { return c > ' ' && c <= '~'; })) {
    return absl::InvalidArgumentError(
        "the token may hold printable ASCII characters only, on one line and without spaces; see "
        "the token file or FETTLE_TOKEN");
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Also how long one attempt may take: generous, for a machine whose cores are all busy.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kResolvePauseMs);
  // A channel of its own, so that two clients in one process never share a broken connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (local) arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");

  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!local && (!options.ca_file.empty() || !IsLoopbackEndpoint(options.endpoint))) {
    grpc::SslCredentialsOptions tls;
    if (!options.ca_file.empty()) {
      absl::StatusOr<std::string> roots = ReadFile(options.ca_file);
      if (!roots.ok()) return roots.status();
      tls.pem_root_certs = *std::move(roots);
    }
    if (!options.server_name.empty()) {
      arguments.SetSslTargetNameOverride(options.server_name);
    }
    credentials = grpc::SslCredentials(tls);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> creators;
  if (!options.token.empty()) {
    creators.push_back(std::make_unique<TokenInterceptorFactory>(options.token));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(options.endpoint, credentials,
                                                                 arguments, std::move(creators));
}

absl::Status WithErrorCode(absl::Status status, std::string_view code) {
  status.SetPayload(kErrorCodeUrl, absl::Cord(absl::string_view(code.data(), code.size())));
  return status;
}

std::string ErrorCodeOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorCodeUrl);
  return payload.has_value() ? std::string(*payload) : "";
}

absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& endpoint) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kUnavailable && status.error_details().empty()) {
    return absl::UnavailableError(fmt::format(
        "no answer from the server at {}: {}; start one with `fettle serve`, or name another with "
        "--endpoint",
        endpoint, status.error_message()));
  }
  absl::Status result(code, status.error_message());
  const std::string& name = status.error_details();
  if (!name.empty() && name != kAnsweredDetails) result = WithErrorCode(result, name);
  return result;
}

}  // namespace fettle
