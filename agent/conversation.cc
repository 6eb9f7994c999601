// SPDX-License-Identifier: Apache-2.0
#include "agent/conversation.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/text.h"

namespace fettle {
namespace {

// More than any provider puts around a message, a call, a result, a tool.
constexpr std::size_t kFrameBytes = 160;
constexpr std::size_t kKeptOfResult = 200;  // Of an older turn.
constexpr std::size_t kKeptOfTold = 6'000;  // Of the results of a turn that is too long itself.
constexpr std::string_view kGap = "\n(...)\n";
constexpr std::string_view kTurnsWent = "\n\n(Earlier turns of this conversation were left out.)\n";

// Of a text as JSON. Arguments of a call are text within text for some providers.
std::size_t EscapedBytes(std::string_view text) {
  std::size_t bytes = text.size();
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r') {
      ++bytes;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      bytes += 5;
    }
  }
  return IsUtf8(text) ? bytes : bytes + 2 * text.size();  // What is none becomes U+FFFD.
}

std::string Dumped(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, kReplaceInvalid);
}

std::size_t BytesOf(const LlmMessage& message) {
  std::size_t bytes = kFrameBytes + EscapedBytes(message.text);
  for (const LlmToolCall& call : message.calls) {
    bytes += kFrameBytes + EscapedBytes(call.id) + EscapedBytes(call.name) +
             (call.input.is_object() ? EscapedBytes(Dumped(call.input)) : 0);
  }
  for (const LlmToolResult& result : message.results) {
    bytes += kFrameBytes + EscapedBytes(result.id) + EscapedBytes(result.text);
  }
  if (message.raw.is_null()) return bytes;
  return std::max(bytes, kFrameBytes + Dumped(message.raw).size());
}

// System prompt and tools.
std::size_t FixedBytes(const LlmRequest& request) {
  std::size_t bytes = 3 * kFrameBytes + EscapedBytes(request.model) + EscapedBytes(request.system);
  for (const LlmTool& tool : request.tools) {
    bytes += kFrameBytes + EscapedBytes(tool.name) + EscapedBytes(tool.description) +
             Dumped(tool.schema).size();
  }
  return bytes;
}

std::string WithoutMiddle(const std::string& text, std::size_t keep) {
  std::size_t tail = text.size() - std::min(text.size(), keep / 2);
  while (tail < text.size() && (static_cast<unsigned char>(text[tail]) & 0xC0) == 0x80) ++tail;
  return CutText(text, keep / 2) + std::string(kGap) + text.substr(tail);
}

// False: not even without its text.
bool CutQuestion(LlmMessage& question, std::size_t most) {
  const std::string whole = question.text;
  for (std::size_t keep = whole.size(); BytesOf(question) > most; keep = keep * 3 / 4) {
    if (keep < kGap.size()) return false;
    question.text = WithoutMiddle(whole, keep);
  }
  return true;
}

// A turn too long to be echoed, and what it was answered.
void Tell(LlmMessage& turn, LlmMessage& answer, std::size_t bytes) {
  turn.text = fmt::format("(an answer of {} bytes, too long to be repeated here)", bytes);
  turn.calls.clear();
  turn.raw = nullptr;
  std::string told;
  for (const LlmToolResult& result : answer.results) {
    if (told.size() < kKeptOfTold) told += result.text + "\n";
  }
  told += answer.text;
  answer.results.clear();
  answer.text = CutText(told, kKeptOfTold) + "\nYour last answer was too long to be kept. Keep " +
                "answers short: hand in edits instead of the whole source.";
}

bool CutResults(LlmMessage& message) {
  bool any = false;
  for (LlmToolResult& result : message.results) {
    if (result.text.size() <= 2 * kKeptOfResult) continue;
    result.text = fmt::format("{}\n(cut; {} bytes in all)", CutText(result.text, kKeptOfResult),
                              result.text.size());
    any = true;
  }
  return any;
}

}  // namespace

std::size_t RequestBytes(const LlmRequest& request) {
  std::size_t bytes = FixedBytes(request);
  for (const LlmMessage& message : request.messages) bytes += BytesOf(message);
  return bytes;
}

bool FitConversation(LlmRequest& request, std::size_t most) {
  std::size_t bytes = RequestBytes(request);
  if (bytes <= most || request.messages.empty()) return bytes <= most;
  std::vector<LlmMessage>& messages = request.messages;
  const std::size_t fixed = FixedBytes(request);
  if (fixed >= most) return false;
  const std::size_t room = most - fixed;
  const auto count = [&] { return bytes = RequestBytes(request); };

  // The question gets three quarters of the room where turns follow.
  const std::size_t for_question = messages.size() == 1 ? room : room / 4 * 3;
  if (!CutQuestion(messages.front(), for_question)) return false;
  if (count() <= most) return true;

  if (messages.size() >= 3) {
    LlmMessage& turn = messages[messages.size() - 2];
    const std::size_t last = BytesOf(turn) + BytesOf(messages.back());
    if (fixed + BytesOf(messages.front()) + last > most) Tell(turn, messages.back(), last);
  }
  if (count() <= most) return true;

  const std::size_t least = fixed + BytesOf(messages.front());
  const std::size_t goal = least + (most - least) / 4 * 3;
  for (std::size_t i = 2; i + 2 < messages.size() && bytes > goal; i += 2) {
    if (CutResults(messages[i])) count();
  }
  bool went = false;
  while (messages.size() > 3 && bytes > goal) {
    messages.erase(messages.begin() + 1, messages.begin() + 3);
    went = true;
    count();
  }
  if (went && !std::string_view(messages.front().text).ends_with(kTurnsWent)) {
    messages.front().text += kTurnsWent;
    count();
  }
  // What was told of the last turn may still be too long where there is hardly any room.
  while (bytes > most && messages.back().text.size() > 2 * kGap.size()) {
    messages.back().text = WithoutMiddle(messages.back().text, messages.back().text.size() / 2);
    count();
  }
  return bytes <= most;
}

}  // namespace fettle
