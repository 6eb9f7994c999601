// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/gpu_source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

#include <fmt/format.h>

#include "compiler/diagnostics.h"
#include "compiler/gpu/shim_files.h"
#include "compiler/source_scan.h"
#include "core/digest.h"

namespace fettle {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsIdentifier(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), IsWord);
}

// A name expression: identifiers and template arguments, no way out of the expression.
bool IsNameExpression(std::string_view entry) {
  return !entry.empty() && entry.size() <= 1000 &&
         std::all_of(entry.begin(), entry.end(), [](char c) {
           return IsWord(c) || std::string_view(":<>, ()*&-+.").find(c) != std::string_view::npos;
         });
}

bool IsHeaderName(std::string_view name) {
  if (name.empty() || name[0] == '/' || name.find_first_of("\\\"\n\r") != std::string_view::npos) {
    return false;
  }
  return name != ".." && !name.starts_with("../") && name.find("/../") == std::string_view::npos &&
         !name.ends_with("/..") && !name.ends_with("/");
}

std::string_view ShimText(std::string_view file) {
  for (const EmbeddedFile& embedded : ShimFiles()) {
    if (embedded.name == file) return embedded.bytes;
  }
  return {};
}

// A header name as sources include it, and the embedded file behind it; "" for an empty header.
struct HeaderOf {
  const char* name;
  const char* file;
};

// What both dialects may include for device code that neither run-time compiler provides.
constexpr std::array kStandardHeaders{HeaderOf{"stdint.h", "std_ints.h"},
                                      HeaderOf{"cstdint", "std_ints.h"},
                                      HeaderOf{"stddef.h", "std_ints.h"},
                                      HeaderOf{"cstddef", "std_ints.h"},
                                      HeaderOf{"limits.h", "std_limits.h"},
                                      HeaderOf{"climits", "std_limits.h"},
                                      HeaderOf{"float.h", "std_limits.h"},
                                      HeaderOf{"cfloat", "std_limits.h"},
                                      HeaderOf{"math.h", ""},
                                      HeaderOf{"cmath", ""},
                                      HeaderOf{"stdio.h", ""},
                                      HeaderOf{"cstdio", ""},
                                      HeaderOf{"assert.h", ""},
                                      HeaderOf{"cassert", ""},
                                      HeaderOf{"type_traits", "std_type_traits.h"}};

constexpr std::array kHipHeaders{
    HeaderOf{"hip/hip_runtime.h", ""}, HeaderOf{"hip/hip_runtime_api.h", ""},
    HeaderOf{"hip/hip_fp16.h", ""}, HeaderOf{"hip/hip_vector_types.h", ""},
    HeaderOf{"hip/math_functions.h", ""}};

constexpr std::array kCudaHeaders{HeaderOf{"cuda.h", ""},
                                  HeaderOf{"cuda_runtime.h", ""},
                                  HeaderOf{"cuda_runtime_api.h", ""},
                                  HeaderOf{"cuda_fp16.h", ""},
                                  HeaderOf{"cuda_bf16.h", ""},
                                  HeaderOf{"device_launch_parameters.h", ""},
                                  HeaderOf{"vector_types.h", ""},
                                  HeaderOf{"math_constants.h", "cuda_math_constants.h"},
                                  HeaderOf{"mma.h", "cuda_mma.h"}};

// A word that only one vendor's compilers know.
struct Foreign {
  std::string_view word;
  bool prefix;    // The word is the beginning of a name.
  Vendor vendor;  // Whose it is.
  std::string_view what;
};
constexpr std::array kForeign{
    Foreign{"__builtin_amdgcn_", true, Vendor::kAmd, "an AMD builtin"},
    Foreign{"__builtin_nontemporal_", true, Vendor::kAmd, "a clang builtin"},
    Foreign{"__ockl_", true, Vendor::kAmd, "an AMD device library function"},
    Foreign{"__ocml_", true, Vendor::kAmd, "an AMD device library function"},
    Foreign{"ext_vector_type", false, Vendor::kAmd, "a clang vector type"},
    Foreign{"rocwmma", true, Vendor::kAmd, "rocWMMA"},
    Foreign{"wmma", false, Vendor::kNvidia, "nvcuda::wmma"},
    Foreign{"nvcuda", false, Vendor::kNvidia, "nvcuda"},
    Foreign{"cute", false, Vendor::kNvidia, "CuTe"},
    Foreign{"cutlass", false, Vendor::kNvidia, "CUTLASS"},
    Foreign{"__nvvm_", true, Vendor::kNvidia, "an NVVM builtin"},
    Foreign{"__pipeline_", true, Vendor::kNvidia, "the CUDA pipeline primitives"},
    Foreign{"cudaGridDependencySynchronize", false, Vendor::kNvidia, "programmatic launch"}};

std::string_view VendorName(Vendor vendor) { return vendor == Vendor::kAmd ? "AMD" : "NVIDIA"; }

// hiprtc takes no empty header.
std::string TextOr(std::string_view file) {
  const std::string_view text = ShimText(file);
  return text.empty() ? "#pragma once\n" : std::string(text);
}

void AddHeaders(std::span<const HeaderOf> list, DialectHeaders& headers) {
  for (const HeaderOf& header : list) {
    headers.headers.emplace_back(header.name, TextOr(header.file));
  }
}

void AddFirst(std::initializer_list<const char*> files, DialectHeaders& headers) {
  for (const char* file : files) {
    headers.headers.emplace_back(file, std::string(ShimText(file)));
    headers.first = file;  // The last includes what it needs of the others.
  }
}

}  // namespace

DialectHeaders HeadersFor(GpuFrontEnd front_end, Dialect dialect) {
  DialectHeaders headers;
  AddHeaders(kStandardHeaders, headers);
  if (front_end == GpuFrontEnd::kNvrtc) {
    // CUDA's own headers lie in its include folder.
    if (dialect == Dialect::kHip) {
      AddHeaders(kHipHeaders, headers);
      headers.headers.emplace_back("hip/hip_bf16.h", "#include <cuda_bf16.h>\n");
      headers.headers.emplace_back("hip/hip_cooperative_groups.h",
                                   "#include <cooperative_groups.h>\n");
      AddFirst({"fettle_hip_on_cuda.h"}, headers);
    } else {
      AddFirst({"cuda_math_macros.h"}, headers);
    }
    return headers;
  }
  AddHeaders(kHipHeaders, headers);
  headers.headers.emplace_back("hip/hip_bf16.h", TextOr(""));
  const bool own = front_end == GpuFrontEnd::kClang;
  headers.headers.emplace_back("fettle_device.h", TextOr(own ? "fettle_amd_device.h" : ""));
  AddFirst({"fettle_bf16.h"}, headers);
  // hiprtc brings its own.
  const std::string groups = TextOr(own ? "fettle_cooperative_groups.h" : "");
  headers.headers.emplace_back("hip/hip_cooperative_groups.h", groups);
  if (dialect == Dialect::kCuda) {
    headers.headers.emplace_back("cooperative_groups.h", groups);
    AddHeaders(kCudaHeaders, headers);
    AddFirst({"fettle_cuda_on_amd.h"}, headers);
  } else {
    AddFirst({"fettle_hip.h"}, headers);
  }
  return headers;
}

const std::string& DialectHeadersDigest() {
  static const std::string digest = [] {
    std::string all;
    for (const EmbeddedFile& file : ShimFiles()) {
      all += fmt::format("{}:{}:", file.name, file.bytes.size());
      all += file.bytes;
    }
    return Sha256Hex(all);
  }();
  return digest;
}

std::string SlowHeadersOf(std::string_view source) {
  constexpr std::string_view kSlow[] = {"cooperative_groups", "cuda/", "mma.h", "cub/", "cuda_fp8.h"};
  std::istringstream lines{BlankNonCode(source)};
  std::string headers;
  bool slow = false;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<Directive> found = FindDirectives(line);
    if (found.empty()) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      break;
    }
    const std::string& name = found.front().argument;
    const std::size_t end = name.find('>');
    if (found.front().name != "include" || !name.starts_with('<') || end == std::string::npos) break;
    const std::string header = name.substr(1, end - 1);
    slow = slow || std::any_of(std::begin(kSlow), std::end(kSlow), [&header](std::string_view one) {
             return header.starts_with(one);
           });
    headers += "#include <" + header + ">\n";
  }
  return slow ? headers : std::string();
}

std::vector<Diagnostic> FindForeignCode(const CompileRequest& request) {
  std::vector<Diagnostic> found;
  const std::string code = BlankNonCode(request.source);
  const Vendor vendor = request.target.vendor;
  const Vendor native = request.dialect == Dialect::kCuda ? Vendor::kNvidia : Vendor::kAmd;
  int line = 1;
  for (std::size_t at = 0; at < code.size() && found.size() < 20;) {
    if (!IsWord(code[at])) {
      line += code[at++] == '\n' ? 1 : 0;
      continue;
    }
    std::size_t end = at;
    while (end < code.size() && IsWord(code[end])) ++end;
    const std::string_view word = std::string_view(code).substr(at, end - at);
    const auto add = [&](std::string_view what, Vendor owner) {
      found.push_back({request.source_name, line, 0, "error",
                       fmt::format("{} ({}) exists only for {}; this source cannot be built for {}",
                                   word, what, VendorName(owner), request.target.name)});
    };
    if ((word == "asm" || word == "__asm__" || word == "__asm") && native != vendor) {
      add("inline assembly", native);
    }
    for (const Foreign& foreign : kForeign) {
      const bool match = foreign.prefix ? word.starts_with(foreign.word) : word == foreign.word;
      if (match && foreign.vendor != vendor) add(foreign.what, foreign.vendor);
    }
    at = end;
  }
  return found;
}

std::vector<Diagnostic> FindRequestObjections(const CompileRequest& request,
                                              const std::string& rejected_option,
                                              const std::string& allowed_options) {
  std::vector<Diagnostic> found = FindFileAccess(request.source, request.source_name);
  const auto object = [&](std::string text) {
    found.push_back({request.source_name, 0, 0, "error", std::move(text)});
  };
  if (!rejected_option.empty()) {
    object(fmt::format("option {} is not allowed for {}; allowed are {}", rejected_option,
                       request.target.name, allowed_options));
  }
  for (const auto& [name, value] : request.macros) {
    if (!IsIdentifier(name) || value.find_first_of("\n\r") != std::string::npos) {
      object(fmt::format("macro \"{}\": a name must be an identifier and a value one line", name));
    }
  }
  for (const std::string& entry : request.entries) {
    if (!IsNameExpression(entry)) object(fmt::format("entry \"{}\" is no name expression", entry));
  }
  for (const auto& [name, text] : request.headers) {
    if (!IsHeaderName(name)) object(fmt::format("header \"{}\": not a relative path", name));
    for (Diagnostic& diagnostic : FindFileAccess(text, name))
      found.push_back(std::move(diagnostic));
  }
  return found;
}

CompileResult RejectionOf(std::vector<Diagnostic> diagnostics) {
  CompileResult result;
  for (const Diagnostic& d : diagnostics) {
    result.log +=
        d.line > 0 ? fmt::format("{}:{}:{}: {}: {}\n", d.file, d.line, d.column, d.severity, d.text)
                   : fmt::format("{}: {}: {}\n", d.file, d.severity, d.text);
  }
  result.log = CleanLog(std::move(result.log), {});
  result.diagnostics = std::move(diagnostics);
  return result;
}

absl::Status CheckRequest(const CompileRequest& request, std::string_view compiler) {
  if (request.source.empty()) {
    return absl::InvalidArgumentError(fmt::format("compile with {}: empty source", compiler));
  }
  if (request.entries.empty()) {
    return absl::InvalidArgumentError(fmt::format("compile with {}: no entries", compiler));
  }
  return absl::OkStatus();
}

}  // namespace fettle
