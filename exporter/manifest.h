// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "exporter/evidence_check.h"

namespace fettle {

// The JSON schema of manifest.json, shipped in every bundle and checked on verification. Draft
// 2020-12, of which it uses type, const, enum, required, properties, additionalProperties, items,
// minItems and minLength.
std::string_view ManifestSchema();

// kInvalidArgument names the place ("/variants/0/builds"), what is wrong there and what was wanted.
absl::Status CheckSchema(const nlohmann::json& document, const nlohmann::json& schema);

// Where a variant's files lie in a bundle.
struct VariantPaths {
  std::string source;                                        // "sources/<id>/kernel.cu"
  std::vector<std::pair<std::string, std::string>> headers;  // Path, text.
  std::string evidence;                                      // "evidence/<id>.json"
  std::vector<std::string> objects;  // One per build: "objects/cuda/sm_90a/<id>-0.cubin"
};
// kInvalidArgument: a file name of the kernel that would leave its folder.
absl::StatusOr<VariantPaths> PathsOf(const ProvenVariant& variant);

// The manifest of `variants`, which are of one task and sorted by id. `digests`: SHA-256 and size
// of every file it refers to.
struct FileFacts {
  std::string sha256;
  std::size_t bytes = 0;
};
absl::StatusOr<nlohmann::json> MakeManifest(const std::vector<ProvenVariant>& variants,
                                            const std::map<std::string, FileFacts>& files);

// README.md of a bundle, from its manifest alone.
std::string MakeReadme(const nlohmann::json& manifest);

// Whether `path` is relative and stays below its folder: no empty, "." or ".." part, no backslash.
bool IsPlainPath(std::string_view path);

}  // namespace fettle
