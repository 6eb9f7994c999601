// SPDX-License-Identifier: Apache-2.0
#include "agent/model_catalog.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "agent/agent_data.h"
#include "core/json_reader.h"
#include "core/json_text.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr double kPerMillion = 1e-6;
constexpr std::int64_t kFrameTokens = 64;    // Of one message or tool, beyond its text.
constexpr std::int64_t kBytesPerToken = 16;  // At most, of what can be seen.

bool IsPrintable(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

absl::StatusOr<ModelSpec> ParseModel(const std::string& name, const json& entry) {
  JsonReader reader(entry, "models." + name);
  ModelSpec model;
  model.name = name;
  model.model = name;
  reader.Get("provider", model.provider);
  reader.Get("base_url", model.base_url);
  reader.GetOptional("model", model.model);
  reader.GetOptional("key_env", model.key_env);
  reader.GetOptional("key_file", model.key_file);
  reader.GetOptional("ca_file", model.ca_file);
  reader.GetOptional("limit_field", model.limit_field);
  reader.GetOptional("headers", model.headers);
  reader.Get("context_tokens", model.context_tokens);
  reader.Get("max_output_tokens", model.max_output_tokens);
  reader.GetOptional("idle_seconds", model.idle_seconds);
  reader.GetOptional("total_seconds", model.total_seconds);
  const json price = reader.Child("usd_per_million");
  if (reader.ok()) {
    JsonReader inner(price, "models." + name + ".usd_per_million");
    inner.Get("input", model.price.input);
    inner.Get("output", model.price.output);
    inner.Get("cache_read", model.price.cache_read);
    inner.Get("cache_write", model.price.cache_write);
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    for (const double usd :
         {model.price.input, model.price.output, model.price.cache_read, model.price.cache_write}) {
      if (!(usd >= 0)) reader.Fail("usd_per_million", "must not be negative");
    }
  }
  // It is named in messages, which no secret may enter: no password, no `?api_key=`.
  const std::size_t host = model.base_url.find("://");
  const std::size_t path = model.base_url.find('/', host == std::string::npos ? 0 : host + 3);
  if (model.base_url.substr(0, path).find('@') != std::string::npos) {
    reader.Fail("base_url", "must not hold a name or password; use key_env, key_file or headers");
  }
  if (model.base_url.find_first_of("?#") != std::string::npos) {
    reader.Fail("base_url", "must not hold a query or fragment; use key_env, key_file or headers");
  }
  if (!IsPrintable(model.base_url)) reader.Fail("base_url", "must not hold control characters");
  for (const auto& [header, value] : model.headers) {
    if (header.empty() || header.find_first_of(" :") != std::string::npos || !IsPrintable(header) ||
        !IsPrintable(value)) {
      reader.Fail("headers", "must be pairs of a name and a value, without control characters");
    }
  }
  if (model.context_tokens <= 0) reader.Fail("context_tokens", "must be positive");
  if (model.max_output_tokens <= 0) reader.Fail("max_output_tokens", "must be positive");
  if (!(model.idle_seconds > 0) || !(model.total_seconds > 0)) {
    reader.Fail("idle_seconds", "idle_seconds and total_seconds must be positive");
  }
  if (model.provider != "anthropic" && model.provider != "openai") {
    reader.Fail("provider", "must be anthropic or openai");
  }
  if (model.limit_field != "max_tokens" && model.limit_field != "max_completion_tokens") {
    reader.Fail("limit_field", "must be max_tokens or max_completion_tokens");
  }
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return model;
}

std::int64_t BytesOf(const LlmRequest& request) {
  return static_cast<std::int64_t>(
      ToJson(request).dump(-1, ' ', false, json::error_handler_t::replace).size());
}

std::int64_t BytesOf(const LlmReply& reply) {
  std::size_t bytes = reply.text.size();
  for (const LlmToolCall& call : reply.calls) bytes += call.raw_input.size() + call.name.size();
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

absl::StatusOr<ModelSpec> ModelCatalog::Find(const std::string& name) const {
  const auto found = models.find(name.empty() ? default_model : name);
  if (found != models.end()) return found->second;
  std::string known;
  for (const auto& [one, model] : models) known += (known.empty() ? "" : ", ") + one;
  return absl::NotFoundError(
      fmt::format("model '{}' is not known to this server; there are {} (`fettle serve --models` "
                  "adds others)",
                  name, known));
}

absl::StatusOr<ModelCatalog> ParseModelCatalog(std::string_view json_text) {
  const json document = ParseJson(json_text);
  JsonReader reader(document, "models file");
  std::int64_t format = 0;
  ModelCatalog catalog;
  std::string note;
  reader.Get("format", format);
  reader.GetOptional("note", note);
  reader.GetOptional("default", catalog.default_model);
  const json models = reader.Child("models");
  if (reader.ok() && !models.is_object()) reader.Fail("models", "must be an object");
  if (reader.ok() && format != 1) reader.Fail("format", "must be 1");
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  for (const auto& [name, entry] : models.items()) {
    FETTLE_ASSIGN_OR_RETURN(catalog.models[name], ParseModel(name, entry));
  }
  return catalog;
}

absl::StatusOr<ModelCatalog> LoadModelCatalog(const std::string& path) {
  absl::StatusOr<ModelCatalog> bundled = ParseModelCatalog(AgentData("models.json"));
  FETTLE_CHECK(bundled.ok());
  if (path.empty()) return bundled;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return absl::NotFoundError(fmt::format("read the models file {}: cannot", path));
  absl::StatusOr<ModelCatalog> own = ParseModelCatalog(text.str());
  if (!own.ok()) {
    return absl::InvalidArgumentError(fmt::format("read {}: {}", path, StatusText(own.status())));
  }
  if (!own->default_model.empty()) bundled->default_model = own->default_model;
  for (auto& [name, model] : own->models) bundled->models[name] = std::move(model);
  return bundled;
}

TokenCost UpperBound(const ModelSpec& model, const LlmRequest& request) {
  const std::int64_t input =
      BytesOf(request) +
      kFrameTokens * static_cast<std::int64_t>(1 + request.messages.size() + request.tools.size());
  TokenCost cost;
  cost.tokens = input + request.max_output_tokens;
  const double dearest = std::max({model.price.input, model.price.cache_write});
  cost.usd = kPerMillion * (static_cast<double>(input) * dearest +
                            static_cast<double>(request.max_output_tokens) * model.price.output);
  return cost;
}

TokenCost CostOf(const ModelSpec& model, const LlmRequest& request, const LlmReply& reply,
                 const TokenCost& bound) {
  const LlmUsage& usage = reply.usage;
  std::int64_t counts[] = {usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
                           usage.output_tokens};
  for (std::int64_t& count : counts) {
    if (count > bound.tokens) return bound;  // Cannot be; whatever it was, this much is reserved.
    count = std::max<std::int64_t>(count, 0);
  }
  const auto [input, read, write, output] = counts;
  const std::int64_t least_input = BytesOf(request) / kBytesPerToken;
  const std::int64_t least_output = BytesOf(reply) / kBytesPerToken;
  const std::int64_t missing_input = std::max<std::int64_t>(0, least_input - input - read - write);
  const std::int64_t missing_output = std::max<std::int64_t>(0, least_output - output);
  TokenCost cost;
  cost.tokens =
      std::min(bound.tokens, input + read + write + output + missing_input + missing_output);
  const auto usd = [](std::int64_t tokens, double price) {
    return kPerMillion * static_cast<double>(tokens) * price;
  };
  cost.usd = std::min(bound.usd, usd(input + missing_input, model.price.input) +
                                     usd(read, model.price.cache_read) +
                                     usd(write, model.price.cache_write) +
                                     usd(output + missing_output, model.price.output));
  return cost;
}

}  // namespace fettle
