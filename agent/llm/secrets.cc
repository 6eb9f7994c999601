// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/secrets.h"

#include <algorithm>
#include <cctype>

#include <absl/strings/cord.h>
#include <absl/strings/string_view.h>
#include <fmt/format.h>

#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::size_t kShortestSecret = 8;
constexpr std::string_view kInstead = "(the key)";

bool LooksSecret(const std::string& word) {
  const bool digit =
      std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return word.size() >= 20 || (digit && word.size() >= 12);
}

std::vector<std::string> WordsOf(const std::string& text) {
  constexpr char kBetween[] = " \t,;=\"";
  std::vector<std::string> words;
  std::size_t end = 0;
  for (std::size_t begin = text.find_first_not_of(kBetween); begin != std::string::npos;
       begin = text.find_first_not_of(kBetween, end)) {
    end = std::min(text.find_first_of(kBetween, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
  }
  return words;
}

// Whether there was any.
bool Replace(std::string& text, const std::vector<std::string>& secrets) {
  bool any = false;
  for (const std::string& secret : secrets) {
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + kInstead.size())) {
      text.replace(at, secret.size(), kInstead);
      any = true;
    }
  }
  return any;
}

// In every text and name of a document, whose nesting is bounded.
bool Replace(json& value, const std::vector<std::string>& secrets) {
  bool any = false;
  if (value.is_string()) return Replace(value.get_ref<std::string&>(), secrets);
  if (value.is_array()) {
    for (json& element : value) any |= Replace(element, secrets);
  } else if (value.is_object()) {
    json clean = json::object();
    for (auto& [name, element] : value.items()) {
      std::string key = name;
      any |= Replace(key, secrets);
      any |= Replace(element, secrets);
      clean[key] = std::move(element);
    }
    value = std::move(clean);
  }
  return any;
}

}  // namespace

absl::StatusOr<std::string> UsableKey(const std::string& model, std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format("model {}: the key is empty", model));
  }
  text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  if (!std::none_of(text.begin(), text.end(),
                    [](unsigned char c) { return c < 0x20 || c == 0x7F; })) {
    return absl::InvalidArgumentError(fmt::format(
        "model {}: the key holds control characters, as of several lines; it must be one line",
        model));
  }
  return std::string(text);
}

Secrets::Secrets(const std::string& key,
                 const std::vector<std::pair<std::string, std::string>>& headers) {
  values_.push_back(key);
  words_.push_back(key);
  for (const auto& [name, value] : headers) {
    values_.push_back(value);
    for (std::string& word : WordsOf(value)) {
      if (LooksSecret(word)) words_.push_back(std::move(word));
    }
  }
  for (std::vector<std::string>* list : {&values_, &words_}) {
    std::erase_if(*list, [](const std::string& one) { return one.size() < kShortestSecret; });
    std::sort(list->begin(), list->end(),
              [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  }
}

std::string Secrets::Clean(std::string text) const {
  Replace(text, values_);
  return text;
}

absl::Status Secrets::Clean(const absl::Status& status) const {
  std::string text(status.message());
  if (!Replace(text, values_)) return status;
  absl::Status cleaned(status.code(), text);
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { cleaned.SetPayload(url, payload); });
  return cleaned;
}

void Secrets::Clean(LlmReply& reply) const {
  for (std::string* text : {&reply.text, &reply.model, &reply.request_id}) Replace(*text, words_);
  for (LlmToolCall& call : reply.calls) {
    for (std::string* text : {&call.id, &call.name, &call.raw_input}) Replace(*text, words_);
    // It may be written with escapes there.
    if (Replace(call.input, words_))
      call.raw_input = call.input.dump(-1, ' ', false, kReplaceInvalid);
  }
  if (Replace(reply.raw, words_)) reply.raw = nullptr;
}

}  // namespace fettle
