// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/gpu_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace fettle {
namespace {

bool IsDigits(std::string_view text) {
  return !text.empty() && text.size() <= 6 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

// "NAME" or "NAME=VALUE" on one line.
bool IsMacro(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('='));
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  if (text.find_first_of("\n\r") != std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

bool IsStandard(std::string_view option) {
  return option == "-std=c++14" || option == "-std=c++17" || option == "-std=c++20";
}

bool IsFastMath(std::string_view option) {
  return option == "--use_fast_math" || option == "-use_fast_math" || option == "-ffast-math";
}

// "--fmad=false" and its kin.
bool IsSwitch(std::string_view option) {
  for (const std::string_view name : {"--fmad=", "--ftz=", "--prec-div=", "--prec-sqrt="}) {
    if (!option.starts_with(name)) continue;
    const std::string_view value = option.substr(name.size());
    return value == "true" || value == "false";
  }
  return false;
}

bool IsNumbered(std::string_view option, std::string_view name) {
  return option.starts_with(name) && IsDigits(option.substr(name.size()));
}

bool IsNvrtcOption(std::string_view option) {
  return IsSwitch(option) || IsNumbered(option, "--maxrregcount=") ||
         option == "--extra-device-vectorization" || option == "--generate-line-info";
}

bool IsAmdOption(std::string_view option) {
  static constexpr std::array<std::string_view, 10> kPlain{"-O0",
                                                           "-O1",
                                                           "-O2",
                                                           "-O3",
                                                           "-munsafe-fp-atomics",
                                                           "-ffp-contract=off",
                                                           "-ffp-contract=on",
                                                           "-ffp-contract=fast",
                                                           "-fno-unroll-loops",
                                                           "-fgpu-flush-denormals-to-zero"};
  return std::find(kPlain.begin(), kPlain.end(), option) != kPlain.end() ||
         IsNumbered(option, "--gpu-max-threads-per-block=");
}

}  // namespace

GpuOptions ReadNvrtcOptions(const std::vector<std::string>& options) {
  GpuOptions read;
  for (const std::string& option : options) {
    if (option == "--ptx") {
      read.ptx = true;
    } else if (IsFastMath(option)) {
      read.arguments.emplace_back("--use_fast_math");
    } else if (IsStandard(option)) {
      read.arguments.push_back("-" + option);
    } else if (IsNvrtcOption(option) ||
               (option.starts_with("-D") && IsMacro(std::string_view(option).substr(2)))) {
      read.arguments.push_back(option);
    } else {
      read.rejected = option;
      break;
    }
  }
  return read;
}

GpuOptions ReadAmdOptions(const std::vector<std::string>& options) {
  GpuOptions read;
  for (const std::string& option : options) {
    if (IsFastMath(option)) {
      read.arguments.emplace_back("-ffast-math");
    } else if (IsStandard(option) || IsAmdOption(option) ||
               (option.starts_with("-D") && IsMacro(std::string_view(option).substr(2)))) {
      read.arguments.push_back(option);
    } else {
      read.rejected = option;
      break;
    }
  }
  return read;
}

std::string AllowedNvrtcOptions() {
  return "-DNAME=VALUE, -std=c++14|17|20, --use_fast_math, --fmad=, --ftz=, --prec-div=, "
         "--prec-sqrt=, --maxrregcount=N, --extra-device-vectorization, --generate-line-info, "
         "--ptx";
}

std::string AllowedAmdOptions() {
  return "-DNAME=VALUE, -std=c++14|17|20, -ffast-math, -O0 to -O3, -munsafe-fp-atomics, "
         "-ffp-contract=, -fno-unroll-loops, -fgpu-flush-denormals-to-zero, "
         "--gpu-max-threads-per-block=N";
}

}  // namespace fettle
