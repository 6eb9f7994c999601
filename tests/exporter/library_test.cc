// SPDX-License-Identifier: Apache-2.0
#include "exporter/library.h"

#include <csignal>
#include <filesystem>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

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

TEST(Library, WhatArrivesAndIsNotBetterIsSaidNotToBeTaken) {
  const TestFolder folder;
  const std::string library = folder.path() + "/lib";
  ASSERT_TRUE(AddToLibrary(library, OneVariant("best", 64, {1.9, 1.05, 1.9}), "").ok());
  const auto loser = AddToLibrary(library, OneVariant("slow", 128, {1.1, 1.02, 1.1}), "");
  ASSERT_TRUE(loser.ok()) << loser.status();
  EXPECT_EQ(loser->kind, LibraryUpdate::Kind::kUnchanged);
  EXPECT_EQ(loser->declined, std::vector<std::string>{"slow"});
  EXPECT_TRUE(loser->superseded.empty());
  // Beside one that is taken: no bundle of the library ever held the other one.
  FakeBlobs blobs;
  const std::vector<VariantProvenance> two = {
      Parsed(MakeProvenance(blobs, {.id = "slow",
                                    .task = GuardTask(),
                                    .values = {{"BLOCK", 128}},
                                    .ratios = {1.1, 1.02, 1.1}})),
      Parsed(MakeProvenance(blobs, {.id = "tall",
                                    .task = GuardTask(),
                                    .values = {{"BLOCK", 64}},
                                    .requirements = {"rows >= 1"},
                                    .ratios = {1.2, 1.7, 1.2}}))};
  const auto bundle = BuildBundle(two, blobs);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  const auto both = AddToLibrary(library, *bundle, "");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->added, std::vector<std::string>{"tall"});
  EXPECT_EQ(both->declined, std::vector<std::string>{"slow"});
  EXPECT_TRUE(both->superseded.empty());
  EXPECT_EQ(Index(folder)["ops"][0]["superseded"], json::array());
  const std::string changelog = folder.Read("lib/registry/CHANGELOG.md");
  EXPECT_NE(changelog.find("not taken `slow`"), std::string::npos) << changelog;
  EXPECT_EQ(changelog.find("superseded"), std::string::npos) << changelog;
}

// A recheck that demotes a variant reaches the libraries that hold it.
TEST(Library, ADemotedVariantIsWithdrawnWithItsReason) {
  const TestFolder folder;
  const std::string library = folder.path() + "/lib";
  ASSERT_TRUE(AddToLibrary(library, OneVariant("best", 64, {1.9, 1.9, 1.9}), SampleKey()).ok());
  EXPECT_EQ(LibraryVariants(library, "row_sum"), std::vector<std::string>{"best"});
  EXPECT_TRUE(LibraryVariants(library, "other").empty());
  EXPECT_TRUE(LibraryVariants(folder.path(), "row_sum").empty());
  // Slower than the one in force, and yet what is left.
  const auto update = AddToLibrary(
      library, OneVariant("slow", 128, {1.1, 1.1, 1.1}),
      {.signing_key = SampleKey(), .withdrawn = {{"best", "recheck: wrong\nin y"}, {"who", "x"}}});
  ASSERT_TRUE(update.ok()) << update.status();
  EXPECT_EQ(update->kind, LibraryUpdate::Kind::kUpdated);
  EXPECT_EQ(update->variants, std::vector<std::string>{"slow"});
  EXPECT_EQ(update->withdrawn.size(), 1U);
  const json entry = Index(folder)["ops"][0];
  EXPECT_EQ(entry["withdrawn"][0]["variant"], "best");
  EXPECT_EQ(entry["withdrawn"][0]["reason"], "recheck: wrong\nin y");
  EXPECT_NE(
      folder.Read("lib/registry/CHANGELOG.md").find("- withdrawn `best`: recheck: wrong in y"),
      std::string::npos);
  const auto files = ReadBundle(library + "/" + update->folder);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_TRUE(VerifyBundle(*files).problems.empty());
  // With no variant left the operator leaves the registry, not the folder.
  const auto gone = WithdrawFromLibrary(library, "row_sum",
                                        {.signing_key = SampleKey(), .withdrawn = {{"slow", "r"}}});
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->kind, LibraryUpdate::Kind::kRemoved);
  EXPECT_TRUE(Index(folder)["ops"].empty());
  EXPECT_EQ(Index(folder)["removed"][0]["name"], "row_sum");
  EXPECT_TRUE(fs::exists(library + "/" + update->folder + "/manifest.json"));
  EXPECT_EQ(folder.Read("lib/registry/include/fettle_ops_all.hpp").find("row_sum"),
            std::string::npos);
  EXPECT_EQ(WithdrawFromLibrary(library, "row_sum", {}).status().code(),
            absl::StatusCode::kNotFound);
  // One that comes later goes on from its version.
  const auto back = AddToLibrary(library, OneVariant("again", 64, {1.3, 1.3, 1.3}), "");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->kind, LibraryUpdate::Kind::kAdded);
  EXPECT_EQ(back->version, "1.2.0");
}

TEST(Library, OneOfSeveralVariantsIsWithdrawn) {
  const TestFolder folder;
  const std::string library = folder.path() + "/lib";
  ASSERT_TRUE(AddToLibrary(library, GuardBundle(), "").ok());
  const auto update =
      WithdrawFromLibrary(library, "row_sum", {.signing_key = "", .withdrawn = {{"narrow", "r"}}});
  ASSERT_TRUE(update.ok()) << update.status();
  EXPECT_EQ(update->kind, LibraryUpdate::Kind::kUpdated);
  EXPECT_EQ(update->variants, std::vector<std::string>{"wide"});
  EXPECT_EQ(update->version, "1.1.0");
  const auto again =
      WithdrawFromLibrary(library, "row_sum", {.signing_key = "", .withdrawn = {{"narrow", "r"}}});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->kind, LibraryUpdate::Kind::kUnchanged);
}

// Killed at any moment: the registry is whole, the next exporter finishes and nothing half stays.
TEST(Library, KillNineLeavesARegistryThatIsWhole) {
  const TestFolder folder;
  const std::string library = folder.path() + "/lib";
  const BundleFiles first = SampleBundle();
  const BundleFiles bundles[] = {OneVariant("slow", 128, {1.1, 1.1, 1.1}),
                                 OneVariant("best", 64, {1.9, 1.9, 1.9})};
  ASSERT_TRUE(AddToLibrary(library, first, "").ok());
  int killed = 0;
  for (int round = 0; round < 24; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) {
        for (const BundleFiles& bundle : bundles) (void)AddToLibrary(library, bundle, "");
        // The operator is taken out again, so that every turn writes.
        (void)WithdrawFromLibrary(library, "row_sum",
                                  {.signing_key = "", .withdrawn = {{"best", "r"}, {"slow", "r"}}});
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    killed += WIFSIGNALED(status) ? 1 : 0;
    const json index = json::parse(folder.Read("lib/registry/index.json"), nullptr, false);
    ASSERT_TRUE(index.is_object());
    for (const json& op : index["ops"]) {
      const auto files = ReadBundle(library + "/" + op["folder"].get<std::string>());
      ASSERT_TRUE(files.ok()) << files.status();
    }
  }
  EXPECT_EQ(killed, 24);
  ASSERT_TRUE(AddToLibrary(library, bundles[1], "").ok());
  // What a killed exporter leaves: pretended too, in case none was killed at that moment.
  fs::create_directories(library + "/registry.aB3xYz/include");
  fs::create_directories(library + "/ops/row_sum-9.9.0-0123abcd.aB3xYz/src");
  const auto last = AddToLibrary(library, bundles[0], "");
  ASSERT_TRUE(last.ok()) << last.status();
  for (const char* where : {"", "/ops"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(library + where)) {
      const std::string name = entry.path().filename().string();
      EXPECT_FALSE(name.size() > 7 && name[name.size() - 7] == '.') << entry.path();
    }
  }
  for (const json& op : Index(folder)["ops"]) {
    const auto files = ReadBundle(library + "/" + op["folder"].get<std::string>());
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_TRUE(VerifyBundle(*files).problems.empty());
  }
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
