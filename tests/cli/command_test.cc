// SPDX-License-Identifier: Apache-2.0
// The real binary as a subprocess: exit codes, streams, errors.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "cli/terminal.h"
#include "exporter/bundle.h"
#include "store/store.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int code = -1;
  std::string out, err;
};

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class Command : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/fettle.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
  }
  void TearDown() override {
    std::error_code error;
    fs::remove_all(home_, error);
  }

  // Runs `fettle ARGUMENTS` with a private home and no terminal.
  Outcome Run(const std::string& arguments, const std::string& environment = "") {
    const std::string command =
        "cd " + home_.string() + " && env -i PATH=\"$PATH\" HOME=" + home_.string() + " " +
        environment + " " FETTLE_BIN_DIR "/fettle " + arguments + " >" + (home_ / "out").string() +
        " 2>" + (home_ / "err").string() + " </dev/null";
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    outcome.out = ReadAll(home_ / "out");
    outcome.err = ReadAll(home_ / "err");
    return outcome;
  }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((home_ / name).parent_path());
    std::ofstream(home_ / name) << text;
  }
  static void ExpectOneLine(const Outcome& outcome) {
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  fs::path home_;
};

TEST_F(Command, VersionAndHelp) {
  EXPECT_THAT(Run("version").out, StartsWith("fettle "));
  EXPECT_TRUE(nlohmann::json::accept(Run("version --json").out));
  const Outcome help = Run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* name : {"serve", "submit", "verify", "doctor", "completion"}) {
    EXPECT_THAT(help.out, HasSubstr(name));
  }
}

TEST_F(Command, UsageErrorsExitWithTwo) {
  for (const char* arguments : {"", "nonsense", "jobs --nonsense", "jobs one surplus", "watch",
                                "submit a b", "variants --status new", "export --out x"}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    ExpectOneLine(outcome);
  }
}

TEST_F(Command, NoServerExitsWithThreeAndSaysHowToStartOne) {
  for (const char* arguments : {"jobs", "variants --json", "show abc", "watch abc", "cancel abc",
                                "brief abc --json", "record abc --json"}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 3) << arguments << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("fettle serve"));
    EXPECT_THAT(outcome.err, HasSubstr(home_.string()));
    ExpectOneLine(outcome);
  }
}

TEST_F(Command, SecretsThatOthersCanReadAreRefused) {
  Write("token", "secret-word\n");
  fs::permissions(home_ / "token", fs::perms(0644));
  const Outcome outcome = Run("jobs --endpoint 127.0.0.1:1 --token-file token");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("chmod 600"));
  EXPECT_EQ(outcome.err.find("secret-word"), std::string::npos);
  fs::permissions(home_ / "token", fs::perms(0600));
  const Outcome unreachable = Run("jobs --endpoint 127.0.0.1:1 --token-file token");
  EXPECT_EQ(unreachable.code, 3);
  EXPECT_THAT(unreachable.err, HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(unreachable.err.find("secret-word"), std::string::npos);
}

TEST_F(Command, CheckNamesEveryMistakeWithItsPlace) {
  Write("task/task.yaml", "format: 1\nname: x\nargs: 3\ncases: {timed: []}\n");
  const Outcome outcome = Run("check task --lint-only");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("task.yaml:"));
  EXPECT_GE(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
  const auto json = nlohmann::json::parse(Run("check task --lint-only --json").out);
  EXPECT_EQ(json["passed"], false);
  EXPECT_GE(json["problems"].size(), 2U);
}

TEST_F(Command, TaskFoldersThatAreNoneSaySo) {
  EXPECT_EQ(Run("check none").code, 2);
  fs::create_directory(home_ / "loop");
  Write("loop/task.yaml", "format: 1\n");
  fs::create_directory_symlink(".", home_ / "loop" / "again");
  const Outcome loop = Run("submit loop");
  EXPECT_EQ(loop.code, 2);
  EXPECT_THAT(loop.err, HasSubstr("loop"));
  ExpectOneLine(loop);
}

TEST_F(Command, BundledTasksHaveNoMistakes) {
  for (const auto& entry : fs::directory_iterator(FETTLE_SOURCE_DIR "/tasks")) {
    if (!fs::exists(entry.path() / "task.yaml")) continue;
    const Outcome outcome = Run("check --lint-only " + entry.path().string());
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }
}

// A path where nothing is is a mistake of whoever typed it; a folder that is no bundle, or no task,
// is an answer.
TEST_F(Command, VerifyNeedsABundle) {
  fs::create_directory(home_ / "empty");
  EXPECT_EQ(Run("check empty").code, 1);
  for (const auto& [path, code] : {std::pair{"none", 2}, std::pair{"empty", 1}}) {
    for (const std::string command : {"verify ", "import ", "export --out out --from "}) {
      const Outcome outcome = Run(command + path);
      EXPECT_EQ(outcome.code, code) << command << path << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(code == 1 ? "manifest.json" : "no such folder"));
    }
  }
  for (const char* command : {"explain empty", "profile empty"}) {
    EXPECT_EQ(Run(command).code, 1) << command;
  }
  Write("fake/manifest.json", "{}");
  const Outcome fake = Run("verify fake --json");
  EXPECT_EQ(fake.code, 1);
  EXPECT_EQ(nlohmann::json::parse(fake.out)["whole"], false);
}

// What goes on from a bundle looks first whether it is whole.
TEST_F(Command, AChangedBundleIsRefusedByAllThatReadIt) {
  BundleFiles files = SampleBundle();
  files.at("README.md") += "faster still\n";
  ASSERT_TRUE(WriteBundle((home_ / "changed").string(), files).ok());
  EXPECT_EQ(Run("verify changed").code, 1);
  EXPECT_EQ(Run("verify changed --signer absent.pem").code, 2);
  for (const char* command : {"explain changed", "profile changed", "import changed",
                              "export --out out --from changed"}) {
    const Outcome outcome = Run(command);
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("not whole: README.md: changed")) << command;
    ExpectOneLine(outcome);
  }
}

// docs/cli.md: what could not be done now is no answer.
TEST_F(Command, DataFoldersThatCannotBeOpenedExitWithThree) {
  const auto expect_refused = [this](const std::string& folder, const std::string& why) {
    for (const std::string command :
         {"gc --data-dir ", "recheck --data-dir ", "import whole --data-dir ",
          "import --data-dir fresh ", "serve --http off --no-worker --data-dir "}) {
      const Outcome outcome = Run("" + command + folder);
      EXPECT_EQ(outcome.code, 3) << command << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(why)) << command;
      EXPECT_THAT(outcome.err, HasSubstr(folder)) << command;
      ExpectOneLine(outcome);
    }
  };
  for (const char* name : {"whole", "newer", "damaged"}) {
    ASSERT_TRUE(Store::Open({.data_dir = home_ / name}).ok());
  }
  {
    // SQLite's user_version, which is the version of the schema.
    std::fstream database(home_ / "newer" / "fettle.db",
                          std::ios::in | std::ios::out | std::ios::binary);
    database.seekp(60).write("\0\0\x27\x0f", 4);
  }
  const std::string before = ReadAll(home_ / "newer" / "fettle.db");
  expect_refused("newer", "newer fettle");
  EXPECT_EQ(ReadAll(home_ / "newer" / "fettle.db"), before);
  Write("damaged/fettle.db", "not a database at all");
  expect_refused("damaged", "restore a backup");
  EXPECT_EQ(Run("backup copy --data-dir damaged").code, 3);
  for (const char* command : {"gc", "recheck", "backup copy"}) {
    const Outcome outcome = Run(std::string(command) + " --data-dir none");
    EXPECT_EQ(outcome.code, 3) << command << outcome.err;
    EXPECT_FALSE(fs::exists(home_ / "none")) << command;
  }
}

TEST_F(Command, DoctorListsDevicesCompilersLibrariesAndSandbox) {
  const Outcome outcome = Run("doctor --json");
  ASSERT_TRUE(nlohmann::json::accept(outcome.out)) << outcome.out << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(outcome.code, report["devices"].empty() || report["compilers"].empty() ? 3 : 0);
  EXPECT_GE(report["libraries"].size(), 5U);
  EXPECT_TRUE(report["sandbox"].contains("level"));
  const Outcome text = Run("doctor");
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(DisplayWidth(line), 80) << line;
  std::istringstream narrow(Run("doctor", "COLUMNS=60").out);
  for (std::string line; std::getline(narrow, line);) EXPECT_LE(DisplayWidth(line), 60) << line;
}

TEST_F(Command, CompileAcceptsAndRejects) {
  Write("good.cu", "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n");
  const Outcome good = Run("compile good.cu --json");
  ASSERT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_EQ(nlohmann::json::parse(good.out)["entries"][0], "twice");
  Write("bad.cu", "__global__ void twice(float* x) {\n  x[threadIdx.x] *= y;\n}\n");
  const Outcome bad = Run("compile bad.cu");
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.out, HasSubstr("bad.cu:2"));
  EXPECT_EQ(Run("compile good.cu --target nonsense").code, 1);
  Write("none.cu", "int x;\n");
  EXPECT_EQ(Run("compile none.cu").code, 2);
  for (const char* command : {"compile absent.cu", "init absent.cu --target cpu",
                              "try " FETTLE_SOURCE_DIR "/tasks/layernorm --kernel absent.cu"}) {
    const Outcome absent = Run(command);
    EXPECT_EQ(absent.code, 2) << command << absent.err;
    ExpectOneLine(absent);
  }
}

// On the wire 0 is no limit: who types it means the opposite.
TEST_F(Command, RefusesABudgetOfNothing) {
  for (const auto& [flag, says] :
       {std::pair{"--candidates", "0 would try nothing; give at least 1"},
        std::pair{"--tokens", "0 would ask no model"}, std::pair{"--usd", "0 would ask no model"},
        std::pair{"--minutes", "0 would end at once"},
        std::pair{"--gpu-seconds", "0 would run nothing"}}) {
    for (const std::string command :
         {"submit " FETTLE_SOURCE_DIR "/tasks/layernorm", "resume job"}) {
      const Outcome none = Run(command + " " + flag + " 0");
      EXPECT_NE(none.code, 0);
      EXPECT_THAT(none.err, HasSubstr(std::string(flag) + ": " + says));
      const Outcome negative = Run(command + " " + flag + " -1");
      EXPECT_NE(negative.code, 0);
      EXPECT_THAT(negative.err, HasSubstr(std::string(flag) + ": the limit is negative"));
    }
  }
  const Outcome tiny = Run("resume job --gpu-seconds 0.0001");
  EXPECT_THAT(tiny.err, HasSubstr("--gpu-seconds: 0.0001 is less than can be measured"));
}

TEST_F(Command, HelpFitsATerminalOfEightyColumns) {
  for (const char* command :
       {"", "serve", "worker", "submit", "propose", "resume", "mcp", "export"}) {
    std::istringstream help(Run(std::string(command) + " --help").out);
    int lines = 0;
    for (std::string line; std::getline(help, line); ++lines) {
      EXPECT_LE(line.size(), 80U) << command << ": " << line;
    }
    EXPECT_GT(lines, 5) << command;
  }
}

TEST_F(Command, HelpOfACommandIsItsHelp) {
  const Outcome submit = Run("help submit");
  EXPECT_EQ(submit.code, 0) << submit.err;
  EXPECT_EQ(submit.out, Run("submit --help").out);
  EXPECT_THAT(submit.out, HasSubstr("--candidates"));
  EXPECT_EQ(Run("help").out, Run("--help").out);
  const Outcome none = Run("help nonsense");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no command named nonsense"));
}

TEST_F(Command, SaysItselfWhatIsWrongWithACertificate) {
  Write("ca.pem", "not a certificate");
  const Outcome bad = Run("jobs --endpoint localhost:1 --ca ca.pem");
  EXPECT_NE(bad.code, 0);
  EXPECT_THAT(bad.err, StartsWith("fettle jobs: "));
  EXPECT_EQ(std::count(bad.err.begin(), bad.err.end(), '\n'), 1) << bad.err;
}

}  // namespace
}  // namespace fettle
