// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile_cache.h"

#include <csignal>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/files.h"
#include "tests/fakes/fake_compiler.h"

namespace fettle {
namespace {

CompileRequest Request(std::string source = "__global__ void k() {}") {
  CompileRequest request;
  request.target = {.name = "cpu"};
  request.source_name = "k.cu";
  request.source = std::move(source);
  request.headers = {{"a.h", "1"}};
  request.macros = {{"B", "2"}};
  request.entries = {"k"};
  request.options = {"-O3"};
  return request;
}

CompileResult Result(const std::string& code) {
  CompileResult result;
  result.accepted = true;
  result.code_object = code;
  result.symbols = {"s"};
  result.diagnostics = {{"k.cu", 3, 4, "warning", "w"}};
  result.log = "log";
  result.compiler = "fake 1";
  result.elapsed = std::chrono::nanoseconds(5);
  return result;
}

std::string Key(int n) { return fmt::format("{:064x}", n); }

class CompileCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<CompileCache> Open(std::int64_t max_bytes = 1 << 20) {
    return *CompileCache::Open({.folder = folder_.path() + "/cache", .max_bytes = max_bytes});
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file() && entry.path().filename() != "lock")
        files.push_back(entry.path());
    }
    return files;
  }
  TemporaryFolder folder_ = *TemporaryFolder::Create("");
  FakeCompiler fake_;
};

TEST_F(CompileCacheTest, AnswersTheSecondTimeWithoutTheCompiler) {
  auto cache = Open();
  auto compiler = MakeCachingCompiler(fake_, *cache);
  const auto first = compiler->Compile(Request(), {});
  const auto second = compiler->Compile(Request(), {});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(fake_.calls, 1);
  EXPECT_FALSE(first->cache_hit);
  EXPECT_TRUE(second->cache_hit);
  EXPECT_EQ(second->code_object, first->code_object);
  EXPECT_EQ(second->symbols, first->symbols);
  // Another process finds it too.
  auto reopened = Open();
  EXPECT_TRUE(MakeCachingCompiler(fake_, *reopened)->Compile(Request(), {})->cache_hit);
}

TEST_F(CompileCacheTest, KeepsEveryFieldOfAResult) {
  auto cache = Open();
  cache->Store(Key(1), Result(std::string("a\0b", 3)));
  const auto found = cache->Find(Key(1));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->accepted);
  EXPECT_EQ(found->code_object, std::string("a\0b", 3));
  EXPECT_EQ(found->symbols, std::vector<std::string>{"s"});
  ASSERT_EQ(found->diagnostics.size(), 1u);
  EXPECT_EQ(found->diagnostics[0].line, 3);
  EXPECT_EQ(found->diagnostics[0].column, 4);
  EXPECT_EQ(found->diagnostics[0].severity, "warning");
  EXPECT_EQ(found->log, "log");
  EXPECT_EQ(found->compiler, "fake 1");
}

TEST_F(CompileCacheTest, RemembersRejectionsButNoErrors) {
  auto cache = Open();
  auto compiler = MakeCachingCompiler(fake_, *cache);
  EXPECT_FALSE(compiler->Compile(Request("#error"), {})->accepted);
  const auto again = compiler->Compile(Request("#error"), {});
  EXPECT_TRUE(again->cache_hit);
  EXPECT_EQ(again->diagnostics[0].line, 1);
  fake_.answer = [](const CompileRequest&) { return absl::UnavailableError("gone"); };
  EXPECT_FALSE(compiler->Compile(Request("x"), {}).ok());
  EXPECT_FALSE(compiler->Compile(Request("x"), {}).ok());
  EXPECT_EQ(fake_.calls, 3);
  fake_.answer = [](const CompileRequest&) {
    CompileResult slow;
    slow.repeatable = false;
    return slow;
  };
  EXPECT_FALSE(compiler->Compile(Request("y"), {})->cache_hit);
  EXPECT_FALSE(compiler->Compile(Request("y"), {})->cache_hit);
}

TEST_F(CompileCacheTest, KeysEveryInput) {
  std::set<std::string> keys;
  const auto add = [&](const std::function<void(CompileRequest&)>& change) {
    CompileRequest request = Request();
    change(request);
    EXPECT_TRUE(keys.insert(CompileKey(fake_, request)).second);
  };
  add([](CompileRequest&) {});
  add([](CompileRequest& r) { r.target.name = "sm_90a"; });
  add([](CompileRequest& r) { r.dialect = Dialect::kHip; });
  add([](CompileRequest& r) { r.mode = CompileMode::kCheck; });
  add([](CompileRequest& r) { r.lanes = 64; });
  add([](CompileRequest& r) { r.source_name = "other.cu"; });
  add([](CompileRequest& r) { r.source += " "; });
  add([](CompileRequest& r) { r.headers[0].first = "b.h"; });
  add([](CompileRequest& r) { r.headers[0].second = "2"; });
  add([](CompileRequest& r) { r.macros[0].second = "3"; });
  add([](CompileRequest& r) { r.entries = {"k2"}; });
  add([](CompileRequest& r) { r.entries = {"k", "k2"}; });
  add([](CompileRequest& r) { r.options = {"-O2"}; });
  // Fields do not run into each other.
  add([](CompileRequest& r) { r.macros = {{"B2", ""}}; });
  add([](CompileRequest& r) { r.headers = {{"a.h", "1"}, {"B", "2"}}, r.macros = {}; });
  add([](CompileRequest& r) { r.entries = {"k", "-O3"}, r.options = {}; });
  FakeCompiler newer;
  newer.identity_text = "fake 2";
  EXPECT_TRUE(keys.insert(CompileKey(newer, Request())).second);
}

TEST_F(CompileCacheTest, DropsDamagedEntries) {
  auto cache = Open();
  cache->Store(Key(1), Result("code"));
  ASSERT_EQ(Files().size(), 1u);
  const std::string path = Files()[0], good = *ReadFile(path);
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    ASSERT_TRUE(WriteFile(path, bad).ok());
    EXPECT_FALSE(cache->Find(Key(1)).has_value()) << at;
    EXPECT_FALSE(Exists(path));
  }
  for (std::size_t length : {std::size_t{0}, std::size_t{10}, good.size() - 1}) {
    ASSERT_TRUE(WriteFile(path, good.substr(0, length)).ok());
    EXPECT_FALSE(cache->Find(Key(1)).has_value());
  }
  // An entry under another's name is not taken for it.
  cache->Store(Key(1), Result("code"));
  std::filesystem::rename(path, path.substr(0, path.size() - 1) + "2");
  EXPECT_FALSE(cache->Find(Key(2)).has_value());
}

TEST_F(CompileCacheTest, EvictsTheLeastRecentlyUsed) {
  auto cache = Open(100000);
  for (int i = 0; i < 8; ++i) cache->Store(Key(i), Result(std::string(10000, 'x')));
  // Ages that do not depend on how fast the test runs.
  for (int i = 0; i < 8; ++i) {
    const std::string key = Key(i);
    const std::string path =
        fmt::format("{}/cache/{}/{}", folder_.path(), key.substr(0, 2), key.substr(2));
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  EXPECT_TRUE(cache->Find(Key(0)).has_value());  // Used just now.
  for (int i = 8; i < 11; ++i) cache->Store(Key(i), Result(std::string(10000, 'x')));
  EXPECT_LE(cache->SizeBytes(), 100000);
  EXPECT_TRUE(cache->Find(Key(0)).has_value());
  EXPECT_TRUE(cache->Find(Key(10)).has_value());
  EXPECT_FALSE(cache->Find(Key(1)).has_value());
  // What alone is too large is not stored.
  cache->Store(Key(99), Result(std::string(200000, 'x')));
  EXPECT_FALSE(cache->Find(Key(99)).has_value());
  EXPECT_TRUE(cache->Find(Key(10)).has_value());
}

// Writes entries as fast as it can until it is killed.
[[noreturn]] void WriteForEver(const std::string& folder, std::int64_t max_bytes, int first) {
  auto cache = *CompileCache::Open({.folder = folder, .max_bytes = max_bytes});
  for (int i = 0;; ++i) {
    const int n = first + i % 50;
    cache->Store(Key(n), Result(fmt::format("{:020000}", n)));
  }
}

TEST_F(CompileCacheTest, SurvivesTwoWritersThatAreKilled) {
  const std::string folder = folder_.path() + "/cache";
  constexpr std::int64_t kMax = 600000;
  auto cache = Open(kMax);
  int found = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<pid_t> writers;
    for (int w = 0; w < 2; ++w) {
      const pid_t pid = fork();
      if (pid == 0) WriteForEver(folder, kMax, /*first=*/w * 25);
      writers.push_back(pid);
    }
    const int goal = found + 40;
    for (int i = 0; found < goal; i = (i + 1) % 75) {
      if (const auto result = cache->Find(Key(i)); result.has_value()) {
        ++found;
        ASSERT_EQ(result->code_object, fmt::format("{:020000}", i));
      }
    }
    for (pid_t pid : writers) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  // What the killed writers left does not count against the next ones.
  cache->Store(Key(1000), Result("fresh"));
  EXPECT_TRUE(cache->Find(Key(1000)).has_value());
}

TEST_F(CompileCacheTest, CompilesWithoutAWritableFolder) {
  auto cache = Open();
  std::filesystem::remove_all(folder_.path() + "/cache");
  ASSERT_TRUE(WriteFile(folder_.path() + "/cache", "a file in its place").ok());
  auto compiler = MakeCachingCompiler(fake_, *cache);
  EXPECT_TRUE(compiler->Compile(Request(), {})->accepted);
  EXPECT_FALSE(CompileCache::Open({.folder = folder_.path() + "/cache/x"}).ok());
  EXPECT_FALSE(CompileCache::Open({}).ok());
}

}  // namespace
}  // namespace fettle
