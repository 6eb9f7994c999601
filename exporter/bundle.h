// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "core/blob.h"
#include "exporter/bundle_model.h"
#include "exporter/provenance.h"

namespace fettle {

// The files of a bundle by path relative to its folder (docs/bundles.md).
using BundleFiles = std::map<std::string, std::string>;

// Evidence that later runs of `fettle verify --rerun` add, apart from what was exported.
inline constexpr std::string_view kRerunFolder = "evidence/reruns/";
inline constexpr char kChecksumsFile[] = "SHA256SUMS";
inline constexpr char kSignatureFile[] = "SHA256SUMS.sig";  // 64 raw bytes.
inline constexpr char kSignerFile[] = "signer.pub";         // Ed25519 public key, PEM.

// Lays out variants of one task as a bundle (format 2), in the order of their ids. Depends on its
// arguments and fettle's version alone: the same variants give the same bytes.
//
// Refuses as CheckEvidence, OperatorHeader and ScanForSecrets do; in addition kInvalidArgument: no
// variants, the same one twice, or variants of different tasks.
absl::StatusOr<BundleFiles> BuildBundle(std::span<const VariantProvenance> variants,
                                        BlobStore& blobs, const BundleExtras& extras);
inline absl::StatusOr<BundleFiles> BuildBundle(std::span<const VariantProvenance> variants,
                                               BlobStore& blobs) {
  return BuildBundle(variants, blobs, BundleExtras());
}

// Of variants of one task, those that belong into a bundle: what the portfolio of each target uses.
// Ones whose evidence does not hold are left out, unless that leaves none: then the first one's
// refusal.
absl::StatusOr<std::vector<VariantProvenance>> ChooseVariants(
    std::span<const VariantProvenance> variants, BlobStore& blobs);

// Evidence and extras of a bundle, as read back from its files.
struct BundleParts {
  std::vector<VariantProvenance> variants;
  BundleExtras extras;
};
// kInvalidArgument names the file that cannot be read.
absl::StatusOr<BundleParts> ReadParts(const BundleFiles& files);

// The bundle of `parts`, whose objects and task are taken from `files`. Reruns, signer and
// signature are not kept.
absl::StatusOr<BundleFiles> LayOutAgain(const BundleParts& parts, const BundleFiles& files);

// The bundle with those of its reruns taken in that show a build to run which was only compiled so
// far: its status becomes `run`. A line of `notes` says of each other one why it was not taken.
// kNotFound: there is none to take.
absl::StatusOr<BundleFiles> TakeReruns(const BundleFiles& files, std::vector<std::string>* notes);

// The model behind a bundle's files, with what it refers to.
struct LoadedBundle {
  std::unique_ptr<BundleParts> parts;
  std::vector<ProvenVariant> proven;
  BundleModel model;
};
absl::StatusOr<LoadedBundle> LoadBundle(const BundleFiles& files);

// Adds the signer and the signature over the checksums, in place of earlier ones.
absl::Status SignBundle(std::string_view private_pem, BundleFiles& files);

// Writes `files` as the folder `path`: into a temporary folder beside it, then renamed, so that
// `path` never holds half a bundle. An older bundle there is replaced.
// kAlreadyExists: something there that is not a bundle, or a bundle with reruns, which would be
// lost. kUnavailable, kPermissionDenied, kResourceExhausted: the disk said no; nothing is changed.
absl::Status WriteBundle(const std::string& path, const BundleFiles& files);

// Reads a bundle folder. kInvalidArgument: no folder. kDataLoss: it has no manifest.json, or holds
// something other than files and folders (a symbolic link). kResourceExhausted: too large.
absl::StatusOr<BundleFiles> ReadBundle(const std::string& path);

// Whether reruns can be added to the bundle at `path`; errors as of AddRerun.
absl::Status CanAddRerun(const std::string& path);

// Adds one file to a bundle's folder of reruns, and its checksum. The rest of the bundle stays.
absl::Status AddRerun(const std::string& path, const std::string& evidence_json);

// One compressed document of all files, and back (Optimizer.ExportBundle).
// Unpacking: kDataLoss: not such a document; kInvalidArgument: a path that leaves the folder.
std::string PackBundle(const BundleFiles& files);
absl::StatusOr<BundleFiles> UnpackBundle(std::string_view bytes);

// "sha256sum" lines of `files`, sorted by path, without the checksums and their signature.
std::string Checksums(const BundleFiles& files);

}  // namespace fettle
