// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/blob.h"
#include "exporter/provenance.h"
#include "store/store.h"

namespace fettle {

struct ImportReport {
  std::vector<std::string> imported, known;  // Variant ids; known: the store had them already.
};

// Takes variants of another store into `store`, each with its evidence, which is checked as for an
// export, its task and its code objects from `from`. They belong to a job of their own per task,
// target and `origin` ("import:<origin>"), ended when it is made; status, ids and times stay. All
// or none are stored.
//
// As CheckEvidence refuses; in addition kAlreadyExists: an id that means another variant here.
absl::StatusOr<ImportReport> ImportVariants(Store& store,
                                            std::span<const VariantProvenance> variants,
                                            BlobStore& from, const std::string& origin);

}  // namespace fettle
