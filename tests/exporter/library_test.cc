// SPDX-License-Identifier: Apache-2.0
#include "exporter/library.h"

#include <filesystem>
#include <thread>

#include "exporter/verify.h"
#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A bundle of one variant of the guard task.
BundleFiles OneVariant(const std::string& id, int block, std::vector<double> ratios) {
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = {Parsed(MakeProvenance(
      blobs,
      {.id = id, .task = GuardTask(), .values = {{"BLOCK", block}}, .ratios = std::move(ratios)}))};
  auto files = BuildBundle(variants, blobs);
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : BundleFiles();
}

json Index(const TestFolder& folder) { return json::parse(folder.Read("lib/registry/index.json")); }

TEST(Library, AddsUpdatesSupersedesAndKeepsWhatWas) {
  const TestFolder folder;
  const std::string library = folder.path() + "/lib";
  const auto first = AddToLibrary(library, OneVariant("slow", 128, {1.1, 1.1, 1.1}), SampleKey());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->kind, LibraryUpdate::Kind::kAdded);
  EXPECT_EQ(first->version, "1.0.0");
  // Another variant that is best elsewhere: both stay.
  const auto second = AddToLibrary(library, OneVariant("mixed", 64, {1.5, 1.05, 1.5}), SampleKey());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->kind, LibraryUpdate::Kind::kUpdated);
  EXPECT_EQ(second->version, "1.1.0");
  EXPECT_EQ(second->variants, (std::vector<std::string>{"mixed", "slow"}));
  EXPECT_TRUE(second->superseded.empty());
  // One that is best everywhere supersedes both; nothing is dropped silently.
  const auto third = AddToLibrary(library, OneVariant("best", 64, {1.9, 1.9, 1.9}), SampleKey());
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->variants, (std::vector<std::string>{"best"}));
  EXPECT_EQ(third->superseded, (std::vector<std::string>{"mixed", "slow"}));
  const json index = Index(folder);
  EXPECT_EQ(index["ops"].size(), 1U);
  EXPECT_EQ(index["ops"][0]["superseded"].size(), 2U);
  EXPECT_EQ(index["ops"][0]["history"].size(), 2U);
  for (const json& old : index["ops"][0]["history"]) {
    const auto files = ReadBundle(library + "/" + old["folder"].get<std::string>());
    ASSERT_TRUE(files.ok());
    EXPECT_TRUE(VerifyBundle(*files).problems.empty());
  }
  const std::string changelog = folder.Read("lib/registry/CHANGELOG.md");
  for (const char* text :
       {"## row_sum 1.2.0", "superseded `slow`; its bundle stays in", "new `best`"}) {
    EXPECT_NE(changelog.find(text), std::string::npos) << text << "\n" << changelog;
  }
  // The loser of an earlier round changes nothing, and neither does the same again.
  const auto again = AddToLibrary(library, OneVariant("best", 64, {1.9, 1.9, 1.9}), SampleKey());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->kind, LibraryUpdate::Kind::kUnchanged);
  EXPECT_EQ(Index(folder), index);
}

TEST(Library, ManyOperatorsAreRegisteredTogether) {
  const TestFolder folder;
  const std::string library = folder.path() + "/lib";
  ASSERT_TRUE(AddToLibrary(library, GuardBundle(), "").ok());
  ASSERT_TRUE(AddToLibrary(library, SampleBundle(), "").ok());
  EXPECT_EQ(Index(folder)["ops"].size(), 2U);
  const std::string rows = folder.Read("lib/registry/tuned.csv");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 1 + 6 + 1)
      << rows;  // Header; variants times cases.
  folder.Write("CMakeLists.txt", R"cmake(cmake_minimum_required(VERSION 3.16)
project(all LANGUAGES CXX)
find_package(fettle_ops CONFIG REQUIRED)
add_executable(app main.cc)
target_link_libraries(app PRIVATE fettle::ops)
)cmake");
  folder.Write("main.cc", R"text(#include <cstdio>
#include <fettle_ops_all.hpp>
int main() {
  for (const auto& op : fettle_ops::kOperators) std::printf("%s %s\n", op.name, op.version);
  int ready = 0;
  fettle_ops::for_each_operator([&](auto* type, const char*) {
    static std::remove_pointer_t<decltype(type)> op;
    if (op.prepare(fettle::Backend::kCpu)) ++ready;
  });
  std::printf("ready %d\n", ready);
}
)text");
  const CommandResult built =
      RunCommand(fmt::format("cmake -G Ninja -S {0} -B {0}/build -Dfettle_ops_DIR={0}/lib/registry "
                             "&& cmake --build {0}/build",
                             folder.path()));
  ASSERT_EQ(built.code, 0) << built.output;
  EXPECT_EQ(RunCommand(folder.path() + "/build/app").output,
            "row_sum 1.0.0\nscale 1.0.0\nready 2\n");
}

TEST(Library, TwoExportersAtOnceBothArrive) {
  const TestFolder folder;
  const std::string library = folder.path() + "/lib";
  const BundleFiles one = GuardBundle(), other = SampleBundle();
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      if (!AddToLibrary(library, i % 2 == 0 ? one : other, "").ok()) failed.fetch_add(1);
    });
  }
  // Readers see a whole registry at any moment.
  int torn = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string text = folder.Read("lib/registry/index.json");
    if (!text.empty() && json::parse(text, nullptr, false).is_discarded()) ++torn;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed.load(), 0);
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(Index(folder)["ops"].size(), 2U);
  for (const fs::directory_entry& entry : fs::directory_iterator(library)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("registry.")) << entry.path();
  }
}

TEST(Library, NeverTakesAnotherFolderForOne) {
  const TestFolder folder;
  fs::create_directory(folder.path() + "/lib");
  folder.Write("lib/thesis.txt", "years of work");
  EXPECT_EQ(AddToLibrary(folder.path() + "/lib", SampleBundle(), "").status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(fs::exists(folder.path() + "/lib/registry"));
}

TEST(Library, ADamagedBundleIsNotBuiltUpon) {
  const TestFolder folder;
  const std::string library = folder.path() + "/lib";
  const auto first = AddToLibrary(library, OneVariant("slow", 128, {1.1, 1.1, 1.1}), "");
  ASSERT_TRUE(first.ok()) << first.status();
  folder.Write("lib/" + first->folder + "/README.md", "changed");
  const auto second = AddToLibrary(library, OneVariant("best", 64, {1.9, 1.9, 1.9}), "");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kDataLoss) << second.status();
}

TEST(Library, VersionsFollowWhatChanged) {
  EXPECT_EQ(NextVersion("1.3.2", false), "1.4.0");
  EXPECT_EQ(NextVersion("1.3.2", true), "2.0.0");
  EXPECT_EQ(NextVersion("odd", false), "1.1.0");
}

}  // namespace
}  // namespace fettle
