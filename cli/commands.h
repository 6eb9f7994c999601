// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cli/subcommand.h"

namespace fettle {

// One factory per subcommand, each in its own file.
std::unique_ptr<Subcommand> MakeBackupCommand();
std::unique_ptr<Subcommand> MakeBriefCommand();
std::unique_ptr<Subcommand> MakeCancelCommand();
std::unique_ptr<Subcommand> MakeCandidatesCommand();
std::unique_ptr<Subcommand> MakeCheckCommand();
std::unique_ptr<Subcommand> MakeCompileCommand();
std::unique_ptr<Subcommand> MakeCompletionCommand();
std::unique_ptr<Subcommand> MakeDemoCommand();
std::unique_ptr<Subcommand> MakeDiffCommand();
std::unique_ptr<Subcommand> MakeDisasmCommand();
std::unique_ptr<Subcommand> MakeDoctorCommand();
std::unique_ptr<Subcommand> MakeExplainCommand();
std::unique_ptr<Subcommand> MakeExportCommand();
std::unique_ptr<Subcommand> MakeGcCommand();
std::unique_ptr<Subcommand> MakeImportCommand();
std::unique_ptr<Subcommand> MakeInitCommand();
std::unique_ptr<Subcommand> MakeJobsCommand();
std::unique_ptr<Subcommand> MakeWorkersCommand();
std::unique_ptr<Subcommand> MakeMcpCommand();
std::unique_ptr<Subcommand> MakeProfileCommand();
std::unique_ptr<Subcommand> MakeProposeCommand();
std::unique_ptr<Subcommand> MakeRecheckCommand();
std::unique_ptr<Subcommand> MakeRecordCommand();
std::unique_ptr<Subcommand> MakeReproduceCommand();
std::unique_ptr<Subcommand> MakeResumeCommand();
std::unique_ptr<Subcommand> MakeServeCommand();
std::unique_ptr<Subcommand> MakeShowCommand();
std::unique_ptr<Subcommand> MakeSubmitCommand();
std::unique_ptr<Subcommand> MakeTokenCommand();
std::unique_ptr<Subcommand> MakeTryCommand();
std::unique_ptr<Subcommand> MakeVariantsCommand();
std::unique_ptr<Subcommand> MakeVerifyCommand();
std::unique_ptr<Subcommand> MakeVersionCommand();
std::unique_ptr<Subcommand> MakeWatchCommand();
std::unique_ptr<Subcommand> MakeWorkerCommand();

std::string FettleVersion();

}  // namespace fettle
