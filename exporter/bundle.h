// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "core/blob.h"
#include "exporter/provenance.h"

namespace fettle {

// The files of a bundle by path relative to its folder (docs/bundles.md).
using BundleFiles = std::map<std::string, std::string>;

// Evidence that later runs of `fettle verify --rerun` add, apart from what was exported.
inline constexpr std::string_view kRerunFolder = "evidence/reruns/";

// Lays out variants of one task as a bundle, in the order of their ids. Depends on its arguments
// and fettle's version alone: the same variants give the same bytes.
//
// Refuses as CheckEvidence does; in addition kInvalidArgument: no variants, the same one twice, or
// variants of different tasks.
absl::StatusOr<BundleFiles> BuildBundle(std::span<const VariantProvenance> variants,
                                        BlobStore& blobs);

// Writes `files` as the folder `path`: into a temporary folder beside it, then renamed, so that
// `path` never holds half a bundle. An older bundle there is replaced.
// kAlreadyExists: something there that is not a bundle, or a bundle with reruns, which would be
// lost. kUnavailable, kPermissionDenied, kResourceExhausted: the disk said no; nothing is changed.
absl::Status WriteBundle(const std::string& path, const BundleFiles& files);

// Reads a bundle folder. kInvalidArgument: no bundle, or it holds something other than files and
// folders (a symbolic link). kResourceExhausted: too large.
absl::StatusOr<BundleFiles> ReadBundle(const std::string& path);

// Adds one file to a bundle's folder of reruns, and its checksum. The rest of the bundle stays.
absl::Status AddRerun(const std::string& path, const std::string& evidence_json);

// One compressed document of all files, and back (Optimizer.ExportBundle).
// Unpacking: kDataLoss: not such a document; kInvalidArgument: a path that leaves the folder.
std::string PackBundle(const BundleFiles& files);
absl::StatusOr<BundleFiles> UnpackBundle(std::string_view bytes);

// "sha256sum" lines of `files`, sorted by path.
std::string Checksums(const BundleFiles& files);

}  // namespace fettle
