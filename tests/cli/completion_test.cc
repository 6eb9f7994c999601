// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "cli/commands.h"
#include "cli/parse.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

// A stand-in with every kind of flag.
class SampleCommand final : public Subcommand {
 public:
  std::string name() const override { return "sample"; }
  std::string summary() const override { return "it's a sample: [of] all"; }
  void Declare(FlagSet& flags) override {
    flags.Positional("TASK", &task, "task folder").completes = Completes::kFolder;
    flags.Flag("--json", "", &json, "print JSON");
    flags.Flag("--limit", "N", &limit, "at most N");
    flags.Flag("--minutes", "M", &minutes, "at most M");
    flags.Flag("--shape", "S", &shape, "what's [shown]").choices = {"round", "square"};
    flags.Flag("--set", "NAME=VALUE", &set, "a value");
    flags.Flag("--data-dir", "DIR", &data, "folder").Alias("--data").completes = Completes::kFolder;
  }
  absl::StatusOr<ExitCode> Run(Context&) override { return ExitCode::kOk; }

  std::string task, shape, data;
  bool json = false;
  std::int64_t limit = 5;
  double minutes = 0;
  std::vector<std::string> set;
};

std::vector<std::unique_ptr<Subcommand>> Commands() {
  std::vector<std::unique_ptr<Subcommand>> all;
  all.push_back(std::make_unique<SampleCommand>());
  all.push_back(MakeCompletionCommand());
  return all;
}

std::string Script(const char* shell) {
  const auto commands = Commands();
  const auto parsed = ParseCommandLine(commands, {"completion", shell});
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  std::string out;
  Terminal terminal([&](std::string_view text) { out += text; }, [](std::string_view) {}, {});
  Context context{terminal, {}, "fettle", commands};
  EXPECT_TRUE(parsed->subcommand->Run(context).ok());
  return out;
}

// What bash offers for the words of a command line.
std::string BashOffers(const std::string& words, int at) {
  const std::string path = ::testing::TempDir() + "/fettle.bash";
  std::ofstream(path) << Script("bash") << "COMP_WORDS=(" << words << ")\nCOMP_CWORD=" << at
                      << "\n_fettle\necho \"${COMPREPLY[*]}\"\n";
  const std::string out = path + ".out";
  EXPECT_EQ(std::system(("bash " + path + " > " + out).c_str()), 0);
  std::ifstream in(out);
  std::string line;
  std::getline(in, line);
  return line;
}

TEST(Completion, BashOffersCommandsFlagsAndChoices) {
  EXPECT_EQ(BashOffers("fettle sa", 1), "sample");
  EXPECT_EQ(BashOffers("fettle sample --", 2),
            "--json --limit --minutes --shape --set --data-dir --help");
  EXPECT_EQ(BashOffers("fettle sample --shape ''", 3), "round square");
  EXPECT_EQ(BashOffers("fettle completion ''", 2), "bash zsh fish");
}

TEST(Completion, ZshAndFishNameEveryFlag) {
  for (const char* shell : {"zsh", "fish"}) {
    const std::string script = Script(shell);
    for (const char* flag : {"json", "limit", "shape", "set", "round square"}) {
      EXPECT_THAT(script, HasSubstr(flag)) << shell;
    }
  }
  EXPECT_THAT(Script("zsh"), HasSubstr("'--shape[what'\\''s \\[shown\\]]:S:(round square)'"));
  EXPECT_THAT(Script("fish"), HasSubstr("it\\'s a sample"));
}

TEST(Parse, FillsEveryKindOfFlag) {
  const auto commands = Commands();
  auto& sample = static_cast<SampleCommand&>(*commands[0]);
  const auto parsed = ParseCommandLine(
      commands, {"sample", "folder", "--limit", "7", "--minutes=0.5", "--shape", "round", "--set",
                 "A=1", "--set", "B=2", "--data", "/d", "--json"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->subcommand, &sample);
  EXPECT_EQ(sample.task, "folder");
  EXPECT_EQ(sample.limit, 7);
  EXPECT_EQ(sample.minutes, 0.5);
  EXPECT_EQ(sample.set, (std::vector<std::string>{"A=1", "B=2"}));
  EXPECT_EQ(sample.data, "/d");
  EXPECT_TRUE(sample.json);
}

TEST(Parse, EveryMistakeIsOneLineThatSaysHowToGetHelp) {
  const std::vector<std::vector<std::string>> mistakes = {
      {},
      {"nonsense"},
      {"sample"},
      {"sample", "a", "surplus"},
      {"sample", "a", "--nonsense"},
      {"sample", "a", "--limit", "many"},
      {"sample", "a", "--limit"},
      {"sample", "a", "--shape", "oval"},
  };
  for (const auto& arguments : mistakes) {
    const auto commands = Commands();
    const absl::Status status = ParseCommandLine(commands, arguments).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("--help"));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Parse, HelpIsText) {
  const auto commands = Commands();
  const auto all = ParseCommandLine(commands, {"--help"});
  ASSERT_TRUE(all.ok());
  EXPECT_THAT(all->text, HasSubstr("it's a sample"));
  const auto one = ParseCommandLine(commands, {"sample", "--help"});
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(one->text, HasSubstr("Usage: fettle sample"));
}

TEST(ExitCodes, FollowTheKindOfError) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), ExitCode::kNo);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("")), ExitCode::kNo);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), ExitCode::kNo);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), ExitCode::kUnavailable);
  EXPECT_EQ(ExitCodeOf(absl::UnauthenticatedError("")), ExitCode::kUnavailable);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("")), ExitCode::kUnavailable);
}

}  // namespace
}  // namespace fettle
