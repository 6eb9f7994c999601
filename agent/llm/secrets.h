// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "agent/llm/llm_client.h"

namespace fettle {

// A key as it is sent: without the white space around it that files and variables often have.
// `model` is named in messages. kInvalidArgument, without the key: it is empty or holds control
// characters.
absl::StatusOr<std::string> UsableKey(const std::string& model, std::string_view text);

// What only a provider may see: the key, and the values of further headers. Some servers repeat
// it; it is replaced by "(the key)" before anything is stored, shown or sent again. Values shorter
// than 8 bytes are words, not secrets. Thread-safe.
class Secrets {
 public:
  Secrets(const std::string& key, const std::vector<std::pair<std::string, std::string>>& headers);

  // Errors: the key and whole values of headers.
  std::string Clean(std::string text) const;
  absl::Status Clean(const absl::Status& status) const;
  // Answers, which hold source code: the key, and those words of the headers' values that look like
  // secrets (12 bytes with a digit, or 20). A turn that is echoed as it came and would have to be
  // changed is dropped (LlmReply::raw becomes null): its signatures would no longer fit.
  void Clean(LlmReply& reply) const;

 private:
  std::vector<std::string> values_, words_;  // Longest first: one may hold another.
};

}  // namespace fettle
