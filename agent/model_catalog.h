// SPDX-License-Identifier: Apache-2.0
#pragma once

// Models that may be asked, with prices and limits: data/agent/models.json, overridden by a file of
// the operator's. Keys are named here, never held.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "agent/llm/llm_client.h"

namespace fettle {

// USD per million tokens.
struct ModelPrice {
  double input = 0, output = 0, cache_read = 0, cache_write = 0;
};

struct ModelSpec {
  std::string name;                // As a job names it.
  std::string provider, base_url;  // LlmEndpoint.
  std::string model;               // As the provider names it; empty in the file: `name`.
  std::string key_env, key_file;   // Where the key is; both empty: none is needed.
  std::string ca_file;
  std::string limit_field = "max_tokens";  // LlmEndpoint.
  std::vector<std::pair<std::string, std::string>> headers;
  std::int64_t context_tokens = 0, max_output_tokens = 0;
  double idle_seconds = 90, total_seconds = 600;  // Longest silence, and length, of one answer.
  ModelPrice price;
};

struct ModelCatalog {
  std::string default_model;
  std::map<std::string, ModelSpec> models;

  // kNotFound lists the known names. Empty: the default.
  absl::StatusOr<ModelSpec> Find(const std::string& name) const;
};

// kInvalidArgument names the field.
absl::StatusOr<ModelCatalog> ParseModelCatalog(std::string_view json_text);
// The bundled one, with the entries of `path` over it (empty: none).
absl::StatusOr<ModelCatalog> LoadModelCatalog(const std::string& path);

// What a request can cost at most: no token is shorter than a byte, and output is limited.
struct TokenCost {
  std::int64_t tokens = 0;
  double usd = 0;
};
TokenCost UpperBound(const ModelSpec& model, const LlmRequest& request);
// What an answer cost by its usage, never more than `bound`, and never less than what its visible
// bytes must have taken: a server that reports nothing, or lies, changes no budget by much.
TokenCost CostOf(const ModelSpec& model, const LlmRequest& request, const LlmReply& reply,
                 const TokenCost& bound);

}  // namespace fettle
