// SPDX-License-Identifier: Apache-2.0
#include "cli/task_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fettle {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TaskFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/task.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    task_ = root_ / "task";
    fs::create_directory(task_);
    Write(task_ / "task.yaml", "format: 1\n");
  }
  void TearDown() override {
    std::error_code error;
    fs::remove_all(root_, error);
  }
  static void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

  void ExpectError(absl::StatusCode code, const std::string& part,
                   const TaskFolderLimits& limits = {}) {
    const absl::Status status = ReadTaskFolder(task_.string(), limits).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
  }

  fs::path root_, task_;
};

TEST_F(TaskFolder, ReadsFilesBelowByRelativePath) {
  fs::create_directories(task_ / "data" / "more");
  Write(task_ / "kernel.cu", "k");
  Write(task_ / "data" / "more" / "x.npy", std::string("\0\1", 2));
  Write(task_ / ".hidden", "no");
  fs::create_directory(task_ / ".git");
  Write(task_ / ".git" / "config", "no");
  const auto files = ReadTaskFolder(task_.string());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(*files, (TaskFiles{{"data/more/x.npy", std::string("\0\1", 2)},
                               {"kernel.cu", "k"},
                               {"task.yaml", "format: 1\n"}}));
}

TEST_F(TaskFolder, FollowsLinksThatStayInside) {
  Write(task_ / "kernel.cu", "k");
  fs::create_symlink("kernel.cu", task_ / "same.cu");
  fs::create_directory_symlink(task_, root_ / "link");
  const auto files = ReadTaskFolder((root_ / "link").string());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->at("same.cu"), "k");
}

TEST_F(TaskFolder, RefusesLinksThatLeave) {
  Write(root_ / "secret", "s");
  fs::create_symlink("../secret", task_ / "stolen");
  ExpectError(absl::StatusCode::kInvalidArgument, "leaves the task folder");
  fs::remove(task_ / "stolen");
  fs::create_directory_symlink("/etc", task_ / "etc");
  ExpectError(absl::StatusCode::kInvalidArgument, "leaves the task folder");
  // A neighbour whose name begins like the folder's.
  fs::remove(task_ / "etc");
  fs::create_directory(root_ / "task2");
  Write(root_ / "task2" / "f", "x");
  fs::create_symlink("../task2/f", task_ / "f");
  ExpectError(absl::StatusCode::kInvalidArgument, "leaves the task folder");
}

TEST_F(TaskFolder, RefusesLoops) {
  fs::create_directory(task_ / "sub");
  fs::create_directory_symlink("..", task_ / "sub" / "up");
  ExpectError(absl::StatusCode::kInvalidArgument, "loop");
  fs::remove_all(task_ / "sub");
  fs::create_symlink("me", task_ / "me");
  ExpectError(absl::StatusCode::kInvalidArgument, "link");
}

TEST_F(TaskFolder, RefusesPipesAndDanglingLinks) {
  ASSERT_EQ(::mkfifo((task_ / "pipe").c_str(), 0600), 0);
  ExpectError(absl::StatusCode::kInvalidArgument, "neither a file nor a folder");
  fs::remove(task_ / "pipe");
  fs::create_symlink("gone", task_ / "dangling");
  ExpectError(absl::StatusCode::kNotFound, "dangling");
}

TEST_F(TaskFolder, KeepsToItsLimits) {
  Write(task_ / "big", std::string(3 << 20, 'x'));
  ExpectError(absl::StatusCode::kResourceExhausted, "larger than 2 MiB", {.file_bytes = 2 << 20});
  ExpectError(absl::StatusCode::kResourceExhausted, "more than 1 MiB", {.total_bytes = 1 << 20});
  ExpectError(absl::StatusCode::kResourceExhausted, "more than 1 files", {.files = 1});
  fs::create_directories(task_ / "a" / "b" / "c");
  ExpectError(absl::StatusCode::kInvalidArgument, "nested deeper than 2", {.depth = 2});
}

TEST_F(TaskFolder, SaysWhatIsWrongWithThePath) {
  const auto message = [](const std::string& path) {
    return std::string(ReadTaskFolder(path).status().message());
  };
  EXPECT_THAT(message((root_ / "none").string()), HasSubstr("no such folder"));
  EXPECT_THAT(message((task_ / "task.yaml").string()), HasSubstr("not a folder"));
  fs::remove(task_ / "task.yaml");
  ExpectError(absl::StatusCode::kFailedPrecondition, "holds no task.yaml");
}

TEST_F(TaskFolder, AnUnreadableFileIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root can read everything";
  Write(task_ / "kernel.cu", "k");
  fs::permissions(task_ / "kernel.cu", fs::perms::none);
  ExpectError(absl::StatusCode::kPermissionDenied, "kernel.cu");
}

TEST_F(TaskFolder, WriteFileReplacesWholeFiles) {
  const std::string path = (root_ / "out").string();
  ASSERT_TRUE(WriteFile(path, "one").ok());
  ASSERT_TRUE(WriteFile(path, "two").ok());
  EXPECT_EQ(*ReadFile(path, 100), "two");
  EXPECT_FALSE(WriteFile((root_ / "none" / "out").string(), "x").ok());
}

}  // namespace
}  // namespace fettle
