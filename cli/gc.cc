// SPDX-License-Identifier: Apache-2.0
#include "store/gc.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/data_folder.h"
#include "cli/format.h"
#include "cli/paths.h"
#include "core/clock.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "store/retention.h"

namespace fettle {
namespace {

class GcCommand final : public Subcommand {
 public:
  std::string name() const override { return "gc"; }
  std::string summary() const override { return "remove blobs that nothing needs"; }
  std::string details() const override {
    return "Needs the server stopped. Tasks and everything that a variant's provenance names\n"
           "stay; code objects of candidates that lost go. --samples-after also drops the raw "
           "timing\n"
           "samples of candidates that lost (medians, intervals and block ratios stay) and the\n"
           "conversations with models that led to them.";
  }
  void Declare(FlagSet& flags) override {
    flags.Flag("--data-dir", "DIR", &data_, "data folder (FETTLE_DATA_DIR)")
        .Alias("--data")
        .completes = Completes::kFolder;
    flags.Flag("--min-age", "HOURS", &min_age_hours_, "keep what is younger (default 1)");
    flags.Flag("--samples-after", "DAYS", &samples_days_,
               "drop raw samples and conversations of losing candidates that are older (default: "
               "keep all)");
    flags.Flag("--dry-run", "", &dry_run_, "only say what would go");
    flags.Flag("--json", "", &json_, "print JSON");
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    if (min_age_hours_ < 0 || min_age_hours_ > 1'000'000) {
      return absl::InvalidArgumentError("--min-age: 0 to 1000000 hours");
    }
    if (samples_days_ < -1 || samples_days_ > 100'000) {
      return absl::InvalidArgumentError("--samples-after: 0 to 100000 days");
    }
    const std::string data = DataFolder(data_);
    FETTLE_ASSIGN_OR_RETURN(const auto store, OpenDataFolder(data, /*create=*/false));
    RetentionReport samples;
    if (samples_days_ >= 0) {
      FETTLE_ASSIGN_OR_RETURN(
          samples,
          ThinSamples(*store,
                      {.min_age = std::chrono::hours(24 * samples_days_), .dry_run = dry_run_},
                      SystemClock().NowNs()));
    }
    FETTLE_ASSIGN_OR_RETURN(const GcReport report,
                            CollectGarbage(*store, {.min_age = std::chrono::hours(min_age_hours_),
                                                    .dry_run = dry_run_}));
    if (json_) {
      context.terminal.Print(nlohmann::json{
          {"kept", report.kept},
          {"removed", report.removed},
          {"removed_bytes", report.removed_bytes},
          {"results_thinned", samples.thinned},
          {"freed_bytes", samples.freed_bytes},
          {"transcripts_removed", samples.transcripts},
          {"dry_run", dry_run_}}.dump(2, ' ', false, kReplaceInvalid));
    } else {
      context.terminal.PrintFolded(fmt::format(
          "{}: {} {} blobs ({}), {} stay", data, dry_run_ ? "would remove" : "removed",
          report.removed, FormatBytes(static_cast<double>(report.removed_bytes)), report.kept));
      if (samples_days_ >= 0) {
        context.terminal.PrintFolded(
            fmt::format("{}: samples of {} results and {} conversations {}, {} freed", data,
                        samples.thinned, samples.transcripts, dry_run_ ? "would go" : "went",
                        FormatBytes(static_cast<double>(samples.freed_bytes))));
      }
    }
    return ExitCode::kOk;
  }

 private:
  std::string data_;
  std::int64_t min_age_hours_ = 1, samples_days_ = -1;
  bool dry_run_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> MakeGcCommand() { return std::make_unique<GcCommand>(); }

}  // namespace fettle
