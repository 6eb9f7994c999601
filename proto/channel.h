// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a client (CLI, coding agent, worker) finds the server and proves who it is.

#include <memory>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

namespace fettle {

// Where the server listens and with what to speak to it. Empty fields are filled by
// ResolveEndpoint.
struct EndpointOptions {
  std::string endpoint;     // "unix:/path/to/socket" or "host:port".
  std::string token;        // Needed on TCP.
  std::string token_file;   // Holds the token instead; must have mode 0600.
  std::string ca_file;      // PEM certificates to trust; nonempty switches TLS on.
  std::string server_name;  // Name expected in the certificate where it differs from the host.
};

// $FETTLE_DATA_DIR, else $XDG_DATA_HOME/fettle, else ~/.local/share/fettle.
std::string DefaultDataDir();
// The socket of a server on `data_dir`.
std::string SocketEndpoint(const std::string& data_dir);

// Fills what `flags` leaves empty from the environment (FETTLE_ENDPOINT, FETTLE_TOKEN,
// FETTLE_TOKEN_FILE, FETTLE_CA_FILE, FETTLE_SERVER_NAME), then from the client file
// ($FETTLE_CLIENT_CONFIG, else $XDG_CONFIG_HOME/fettle/client.json, else
// ~/.config/fettle/client.json; keys as the fields above), then from the defaults.
// kPermissionDenied: a file with secrets that others may read. kInvalidArgument: a malformed one.
absl::StatusOr<EndpointOptions> ResolveEndpoint(EndpointOptions flags);

// Opens a channel; connects on first use. Every call carries the token. TLS is used for a TCP
// endpoint that is not on loopback, or when `ca_file` is set.
// kInvalidArgument: a malformed endpoint, or TCP without a token.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const EndpointOptions& options);

// Whether `endpoint` is "unix:..."; and whether its host is a loopback address or "localhost".
bool IsUnixEndpoint(const std::string& endpoint);
bool IsLoopbackEndpoint(const std::string& endpoint);

// What a fettle server puts into the details of an error that has no name of its own (ErrorCodeOf):
// an error without details never reached a server.
inline constexpr char kAnsweredDetails[] = "fettle";

// The same code and message; UNAVAILABLE that no server answered also names the endpoint and how to
// start a server.
absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& endpoint);

// A stable name for what went wrong (docs/mcp.md), which travels beside code and message; empty
// where the server gave none.
absl::Status WithErrorCode(absl::Status status, std::string_view code);
std::string ErrorCodeOf(const absl::Status& status);

// Contents of a file that holds a secret. kPermissionDenied unless only its owner may read it,
// kNotFound where it is missing.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// The largest message either side accepts.
inline constexpr int kMaxMessageBytes = 72 << 20;

}  // namespace fettle
