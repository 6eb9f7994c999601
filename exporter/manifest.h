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

#include "exporter/bundle_model.h"

namespace fettle {

inline constexpr int kBundleFormat = 2;

// The JSON schema of manifest.json (exporter/manifest.schema.json), shipped in every bundle and
// checked on verification. Draft 2020-12, of which it uses $ref, type, const, enum, required,
// properties, additionalProperties, items, minItems and minLength.
std::string_view ManifestSchema();

// kInvalidArgument names the place ("/variants/0/builds"), what is wrong there and what was wanted.
absl::Status CheckSchema(const nlohmann::json& document, const nlohmann::json& schema);

// Where a kernel's source and headers lie in a bundle, with their bytes: "src/<id>/kernel.cu".
// kInvalidArgument: a file name of the kernel that would leave its folder.
absl::StatusOr<std::map<std::string, std::string>> SourceFiles(const BundleKernel& kernel);

// A file's digest and size, as the manifest names it.
struct FileFacts {
  std::string sha256;
  std::size_t bytes = 0;
};

// manifest.json of the model. `files` holds facts of every file that it names (task/, src/,
// objects/, evidence/); one that is missing is a FETTLE_CHECK.
nlohmann::json MakeManifest(const BundleModel& model,
                            const std::map<std::string, FileFacts>& files);

// src/build.json: how each object was made.
nlohmann::json MakeBuildList(const BundleModel& model);

// The manifest for a person.
std::string MakeReadme(const nlohmann::json& manifest);

// Relative, without empty, "." or ".." parts, and without control characters or backslashes.
bool IsPlainPath(std::string_view path);

}  // namespace fettle
