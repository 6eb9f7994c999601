// SPDX-License-Identifier: Apache-2.0
#include "exporter/signature.h"

#include <memory>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "core/digest.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;
using Bio = std::unique_ptr<BIO, Free>;

constexpr std::size_t kSignatureBytes = 64;

Bio BioOf(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

absl::StatusOr<Key> Checked(EVP_PKEY* key, const char* what) {
  Key owned(key);
  if (owned == nullptr || EVP_PKEY_id(owned.get()) != EVP_PKEY_ED25519) {
    return absl::InvalidArgumentError(fmt::format("read the {}: no Ed25519 key in PEM form", what));
  }
  return owned;
}

absl::StatusOr<Key> PrivateKey(std::string_view pem) {
  const Bio bio = BioOf(pem);
  // An empty passphrase: without one, OpenSSL would ask on the terminal.
  return Checked(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, const_cast<char*>("")),
                 "signing key");
}

absl::StatusOr<Key> PublicKey(std::string_view pem) {
  const Bio bio = BioOf(pem);
  return Checked(PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr), "public key");
}

}  // namespace

absl::StatusOr<std::string> NewSigningKey() {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  const Bio bio(BIO_new(BIO_s_mem()));
  if (key == nullptr ||
      PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return absl::UnavailableError("make a signing key: OpenSSL refused");
  }
  return TextOf(bio.get());
}

absl::StatusOr<std::string> PublicKeyOf(std::string_view private_pem) {
  FETTLE_ASSIGN_OR_RETURN(const Key key, PrivateKey(private_pem));
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PUBKEY(bio.get(), key.get()) != 1)
    return absl::InternalError("write a public key");
  return TextOf(bio.get());
}

absl::StatusOr<std::string> Sign(std::string_view private_pem, std::string_view message) {
  FETTLE_ASSIGN_OR_RETURN(const Key key, PrivateKey(private_pem));
  const Context context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  std::size_t size = signature.size();
  if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     reinterpret_cast<const unsigned char*>(message.data()), message.size()) != 1) {
    return absl::InternalError("sign: OpenSSL refused");
  }
  return signature;
}

absl::Status CheckSignature(std::string_view public_pem, std::string_view message,
                            std::string_view signature) {
  FETTLE_ASSIGN_OR_RETURN(const Key key, PublicKey(public_pem));
  const Context context(EVP_MD_CTX_new());
  if (signature.size() == kSignatureBytes &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(message.data()),
                       message.size()) == 1) {
    return absl::OkStatus();
  }
  return absl::DataLossError("the signature does not hold");
}

std::string KeyId(std::string_view public_pem) {
  const absl::StatusOr<Key> key = PublicKey(public_pem);
  if (!key.ok()) return "";
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key->get(), &der);
  if (size <= 0) return "";
  const std::string digest = Sha256Hex(
      std::string_view(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)));
  OPENSSL_free(der);
  return digest.substr(0, 16);
}

}  // namespace fettle
