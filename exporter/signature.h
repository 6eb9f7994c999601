// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ed25519 signatures over a bundle's checksums (RFC 8032: the same key and bytes give the same
// signature). Thread-safe.

#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace fettle {

// A new private key, PEM (PKCS #8).
absl::StatusOr<std::string> NewSigningKey();
// The public half of a private key, PEM. kInvalidArgument: no Ed25519 key.
absl::StatusOr<std::string> PublicKeyOf(std::string_view private_pem);
// 64 raw bytes. kInvalidArgument: no Ed25519 key.
absl::StatusOr<std::string> Sign(std::string_view private_pem, std::string_view message);
// OK: the signature holds. kDataLoss: it does not. kInvalidArgument: no Ed25519 public key.
absl::Status CheckSignature(std::string_view public_pem, std::string_view message,
                            std::string_view signature);
// The key's id: the first 16 hex digits of the SHA-256 of its DER form. Empty: no such key.
std::string KeyId(std::string_view public_pem);

}  // namespace fettle
