// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "agent/llm/llm_client.h"

namespace fettle {

// What a request takes at most in the form that a provider gets, tools and system prompt included.
// Pure, as is all here: a loop that runs again asks the same questions.
std::size_t RequestBytes(const LlmRequest& request);

// Makes a conversation fit `most` bytes. Its first message is the question, and pairs of an
// assistant's turn and the user's answer to it follow. A last pair that is too long is told in a
// few words; results of older ones are cut, then the oldest pairs go, so that a call never stays
// without its result and a turn that is echoed as it came (LlmMessage::raw) stays whole or goes; a
// question that is too long is cut in its middle. More goes than has to, so that the next turns
// change nothing. False: system prompt and tools alone are longer; nothing else is left then.
bool FitConversation(LlmRequest& request, std::size_t most);

}  // namespace fettle
