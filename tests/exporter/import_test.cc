// SPDX-License-Identifier: Apache-2.0
#include "exporter/import_variants.h"
#include "store/job_store.h"
#include "store/variant_store.h"
#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

std::unique_ptr<Store> OpenStore(const TestFolder& folder) {
  auto store = Store::Open({.data_dir = folder.path() + "/data"});
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

TEST(Import, TakesVariantsWithTheirEvidenceOnce) {
  const TestFolder folder;
  const auto store = OpenStore(folder);
  ASSERT_NE(store, nullptr);
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = {Parsed(SampleProvenance(blobs, "v1", 128)),
                                                   Parsed(SampleProvenance(blobs, "v2", 256))};
  const auto report = ImportVariants(*store, variants, blobs, "bundle x");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->imported, (std::vector<std::string>{"v1", "v2"}));
  const auto again = ImportVariants(*store, variants, blobs, "bundle x");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->known.size(), 2U);
  EXPECT_TRUE(again->imported.empty());
  std::optional<VariantRow> row;
  ASSERT_TRUE(store
                  ->Read([&](Connection& db) -> absl::Status {
                    auto found = FindVariant(db, "v1");
                    if (!found.ok()) return found.status();
                    row = *found;
                    return db.CheckIntegrity();
                  })
                  .ok());
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->status, "accepted");
  // A reason of its own would be part of every later export.
  EXPECT_EQ(row->status_reason, "");
  // What was imported can be exported again, byte for byte.
  const VariantProvenance back = Parsed(nlohmann::json::parse(row->provenance_json));
  const std::vector<VariantProvenance> one = {back}, original = {variants[0]};
  const auto from_store = BuildBundle(one, store->blobs()),
             from_sample = BuildBundle(original, blobs);
  ASSERT_TRUE(from_store.ok() && from_sample.ok());
  EXPECT_EQ(from_store->at("objects/cpu/v1-0.so"), from_sample->at("objects/cpu/v1-0.so"));
}

TEST(Import, RefusesEvidenceThatDoesNotHold) {
  const TestFolder folder;
  const auto store = OpenStore(folder);
  ASSERT_NE(store, nullptr);
  FakeBlobs blobs;
  nlohmann::json document = SampleProvenance(blobs, "v1", 128);
  document["measurement"]["cases"][0]["ratio"] = 3.0;
  const std::vector<VariantProvenance> variants = {Parsed(SampleProvenance(blobs, "v0", 256)),
                                                   Parsed(document)};
  EXPECT_EQ(ImportVariants(*store, variants, blobs, "x").status().code(),
            absl::StatusCode::kFailedPrecondition);
  int rows = 0;
  ASSERT_TRUE(store
                  ->Read([&](Connection& db) -> absl::Status {
                    auto list = ListVariants(db, {}, 0, "", 10);
                    if (!list.ok()) return list.status();
                    rows = static_cast<int>(list->size());
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(rows, 0);  // All or none.
}

TEST(Import, AnIdThatMeansAnotherVariantIsRefused) {
  const TestFolder folder;
  const auto store = OpenStore(folder);
  ASSERT_NE(store, nullptr);
  FakeBlobs blobs;
  const std::vector<VariantProvenance> first = {Parsed(SampleProvenance(blobs, "v1", 128))};
  const std::vector<VariantProvenance> second = {Parsed(SampleProvenance(blobs, "v1", 256))};
  ASSERT_TRUE(ImportVariants(*store, first, blobs, "a").ok());
  EXPECT_EQ(ImportVariants(*store, second, blobs, "b").status().code(),
            absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace fettle
