// SPDX-License-Identifier: Apache-2.0
#include "cli/source_flags.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/task_folder.h"
#include "core/skeleton.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::int64_t kMaxSourceBytes = 4 << 20;

}  // namespace

void SourceFlags::Declare(FlagSet& flags) {
  flags.Flag("--target", "T", &target, "architecture (default cpu)");
  flags.Flag("--entry", "NAME", &entries, "kernel, as norm or 'norm<__half>'; may be repeated");
  flags.Flag("--define", "NAME=VALUE", &defines, "macro, as for a tunable; may be repeated")
      .Alias("-D");
  flags.Flag("--option", "OPTION", &options, "compiler option, as --option=-ffast-math");
  flags.Flag("--header", "FILE", &headers, "further file that the source includes").completes =
      Completes::kFile;
  flags.Flag("--lanes", "N", &lanes, "cpu: width of a warp, 32 or 64 (default 32)");
}

absl::StatusOr<CompileRequest> SourceFlags::Request(const std::string& file) const {
  CompileRequest request;
  FETTLE_ASSIGN_OR_RETURN(request.target, FindTarget(target));
  FETTLE_ASSIGN_OR_RETURN(request.source, ReadFile(file, kMaxSourceBytes));
  request.source_name = std::filesystem::path(file).filename().string();
  request.dialect = request.source_name.ends_with(".hip") ? Dialect::kHip : Dialect::kCuda;
  request.lanes = static_cast<int>(lanes);
  request.options = options;
  for (const std::string& header : headers) {
    FETTLE_ASSIGN_OR_RETURN(std::string text, ReadFile(header, kMaxSourceBytes));
    request.headers.emplace_back(std::filesystem::path(header).filename().string(),
                                 std::move(text));
  }
  for (const std::string& define : defines) {
    const std::size_t equals = define.find('=');
    request.macros.emplace_back(define.substr(0, equals),
                                equals == std::string::npos ? "1" : define.substr(equals + 1));
  }
  request.entries = entries;
  if (entries.empty()) {
    for (const KernelSignature& kernel : FindKernels(request.source)) {
      if (kernel.type_parameters.empty() && kernel.value_parameters.empty()) {
        request.entries.push_back(kernel.name);
      }
    }
  }
  if (request.entries.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("compile {}: no kernel that is not a template was found in it; name one with "
                    "--entry, as --entry 'norm<float>'",
                    file));
  }
  return request;
}

}  // namespace fettle
