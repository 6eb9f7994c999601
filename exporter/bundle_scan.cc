// SPDX-License-Identifier: Apache-2.0
#include "exporter/bundle_scan.h"

#include <cctype>
#include <string_view>

#include <fmt/format.h>

namespace fettle {
namespace {

// A token: what it begins with, and how many letters, digits, '-' or '_' must follow.
struct Token {
  std::string_view prefix;
  std::size_t following;
  const char* what;
};
constexpr Token kTokens[] = {
    {"sk-ant-", 20, "an API key"},     {"sk-proj-", 20, "an API key"},
    {"ghp_", 30, "an access token"},   {"github_pat_", 30, "an access token"},
    {"glpat-", 16, "an access token"}, {"xoxb-", 20, "an access token"},
    {"AKIA", 16, "an access key"},     {"hf_", 30, "an access token"}};
constexpr std::string_view kPrivateKey = "PRIVATE KEY-----";
constexpr std::string_view kHomes[] = {"/home/", "/root/", "/Users/"};

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

std::string Finding(std::string_view text) {
  if (text.find(kPrivateKey) != std::string_view::npos) return "a private key";
  for (const Token& token : kTokens) {
    for (std::size_t at = text.find(token.prefix); at != std::string_view::npos;
         at = text.find(token.prefix, at + 1)) {
      if (at > 0 && IsWord(text[at - 1])) continue;
      std::size_t end = at + token.prefix.size();
      while (end < text.size() && IsWord(text[end])) ++end;
      if (end - at - token.prefix.size() >= token.following) return token.what;
    }
  }
  for (const std::string_view home : kHomes) {
    const std::size_t at = text.find(home);
    // A path begins a word: "/home/x", not "ahead/home/x".
    if (at != std::string_view::npos &&
        (at == 0 || (!IsWord(text[at - 1]) && text[at - 1] != '/' && text[at - 1] != '.'))) {
      return fmt::format("the path {}...", std::string(text.substr(at, 24)));
    }
  }
  return "";
}

}  // namespace

absl::Status ScanForSecrets(const std::map<std::string, std::string>& files) {
  for (const auto& [path, bytes] : files) {
    const std::string found = Finding(bytes);
    if (found.empty()) continue;
    return absl::FailedPreconditionError(fmt::format(
        "export a bundle: refused: {} holds {}, which must not leave this machine; remove "
        "it from the task or the kernel",
        path, found));
  }
  return absl::OkStatus();
}

}  // namespace fettle
