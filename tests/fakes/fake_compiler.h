// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>

#include "compiler/kernel_compiler.h"

namespace fettle {

// A compiler without a child process. Unless `answer` is set it accepts every source that does not
// contain "#error"; the code object is then "fake:", the source and the symbols.
class FakeCompiler final : public KernelCompiler {
 public:
  std::string_view name() const override { return "fake"; }
  std::string identity() const override { return identity_text; }
  bool Supports(const Target& target) const override { return target.name == "cpu"; }

  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        std::stop_token stop) override {
    ++calls;
    if (!Supports(request.target)) {
      return absl::InvalidArgumentError("the fake compiles for cpu only");
    }
    if (request.source.empty()) return absl::InvalidArgumentError("empty source");
    if (request.entries.empty()) return absl::InvalidArgumentError("no entries");
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    if (answer) return answer(request);
    CompileResult result;
    result.compiler = "fake 1";
    const std::size_t bad = request.source.find("#error");
    result.accepted = bad == std::string::npos;
    if (!result.accepted) {
      const auto line = std::count(request.source.begin(),
                                   request.source.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
      result.diagnostics.push_back(
          {request.source_name, static_cast<int>(line) + 1, 2, "error", "#error"});
      result.log = fmt::format("{}:{}:2: error: #error\n", request.source_name, line + 1);
      return result;
    }
    result.code_object = "fake:" + request.source;
    for (const std::string& entry : request.entries) {
      result.symbols.push_back("fake_" + entry);
      result.code_object += "\n" + result.symbols.back();
    }
    return result;
  }

  std::string identity_text = "fake 1";
  std::function<absl::StatusOr<CompileResult>(const CompileRequest&)> answer;
  std::atomic<int> calls{0};
};

}  // namespace fettle
