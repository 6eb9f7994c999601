// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "agent/llm/llm_client.h"

namespace fettle {

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
