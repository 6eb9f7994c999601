// SPDX-License-Identifier: Apache-2.0
#pragma once

// The --json form of what the server returns: one object per thing, members named as in the wire
// messages, embedded *_json documents as objects under the same name without "_json", times in
// nanoseconds since the epoch.

#include <string>

#include <nlohmann/json.hpp>

#include "fettle/v1/optimizer.pb.h"

namespace fettle {

nlohmann::json ToJson(const v1::Budget& budget);
nlohmann::json ToJson(const v1::Job& job);
nlohmann::json ToJson(const v1::JobEvent& event);
nlohmann::json ToJson(const v1::Candidate& candidate);
nlohmann::json ToJson(const v1::Variant& variant);
nlohmann::json ToJson(const v1::Worker& worker);

std::string JobStateName(v1::JobState state);  // "running"
bool IsFinal(v1::JobState state);
std::int64_t ToNs(const google::protobuf::Timestamp& time);
// The document in `text`; null where empty or malformed, or where it nests without end.
nlohmann::json ParseDocument(const std::string& text);

}  // namespace fettle
