// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/rtc_library.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <dlfcn.h>

namespace fettle::rtc {
namespace {

constexpr std::string_view kIsaPrefix = "amdgcn-amd-amdhsa--";

std::vector<const char*> Raw(const Strings& strings) {
  std::vector<const char*> raw;
  for (const std::string& text : strings) raw.push_back(text.c_str());
  return raw;
}

template <typename F>
bool BindTo(F& slot, void* handle, const std::string& name) {
  slot = reinterpret_cast<F>(dlsym(handle, name.c_str()));
  return slot != nullptr;
}

// The file that `symbol` was loaded from.
std::string FileOf(const void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string LastError() {
  const char* error = dlerror();
  return error == nullptr ? "unknown error" : error;
}

}  // namespace

std::unique_ptr<Library> Library::Load(bool nvrtc, const Strings& files, std::string& problem) {
  Strings candidates = files;
  if (candidates.empty()) {
    candidates = nvrtc ? Strings{"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                 "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12"}
                       : Strings{"libhiprtc.so.7", "/opt/rocm/lib/libhiprtc.so.7", "libhiprtc.so.6",
                                 "/opt/rocm/lib/libhiprtc.so.6", "libamdhip64.so.5"};
  }
  for (const std::string& file : candidates) {
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      problem += (problem.empty() ? "" : "; ") + LastError();
      continue;
    }
    std::unique_ptr<Library> library(new Library);
    library->nvrtc_ = nvrtc;
    std::string reason = library->Bind(handle);
    if (reason.empty() && !nvrtc) reason = library->LoadComgr(handle, file);
    if (!reason.empty()) {
      problem += (problem.empty() ? "" : "; ") + reason;
      continue;
    }
    library->FindArchs();
    // The first compile loads builtins and fills tables that the children then share.
    Request warm{.name = "warm.cu",
                 .source = "extern \"C\" __global__ void w(float* p) { p[0] = 1; }"};
    warm.options = {nvrtc ? "--gpu-architecture=sm_80" : "--offload-arch=gfx90a"};
    library->Compile(warm);
    problem.clear();
    return library;
  }
  return nullptr;
}

std::string Library::Bind(void* handle) {
  const std::string prefix = nvrtc_ ? "nvrtc" : "hiprtc";
  std::string missing;
  const auto need = [&](auto& slot, const char* name) {
    if (!BindTo(slot, handle, prefix + name)) missing = prefix + name;
  };
  need(error_string_, "GetErrorString");
  need(version_of_, "Version");
  need(create_, "CreateProgram");
  need(compile_, "CompileProgram");
  need(destroy_, "DestroyProgram");
  need(add_name_, "AddNameExpression");
  need(lowered_name_, "GetLoweredName");
  need(log_size_, "GetProgramLogSize");
  need(log_, "GetProgramLog");
  need(code_size_, nvrtc_ ? "GetCUBINSize" : "GetCodeSize");
  need(code_, nvrtc_ ? "GetCUBIN" : "GetCode");
  if (nvrtc_) {
    BindTo(ptx_size_, handle, prefix + "GetPTXSize");
    BindTo(ptx_, handle, prefix + "GetPTX");
    BindTo(arch_count_, handle, prefix + "GetNumSupportedArchs");
    BindTo(archs_of_, handle, prefix + "GetSupportedArchs");
  }
  if (!missing.empty()) return "the library lacks " + missing;
  file_ = FileOf(reinterpret_cast<const void*>(create_));
  if (nvrtc_) LoadNvrtcBuiltins();
  int major = 0, minor = 0;
  version_of_(&major, &minor);
  // hiprtc answers 9.0 whatever it is; the client reads its version from the file's name.
  if (nvrtc_) version_ = std::to_string(major) + "." + std::to_string(minor);
  return {};
}

// NVRTC loads its builtins by bare name at the first compile, which finds them only in the system's
// search path. Loaded already, from beside the library, they are found anywhere.
void Library::LoadNvrtcBuiltins() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(file_, error).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("libnvrtc-builtins.so.")) continue;
    if (dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) {
      more_files_.push_back(entry.path().string());
    }
  }
}

// hiprtc loads comgr at the first compile, and crashes without it; and up to 6.4 an architecture
// that comgr does not know aborts the process. So comgr is loaded and asked first.
std::string Library::LoadComgr(void* hiprtc, const std::string& file) {
  void* comgr = hiprtc;  // Some builds hold comgr themselves.
  if (dlsym(hiprtc, "amd_comgr_get_isa_count") == nullptr) {
    const bool old = file.ends_with(".so.5");
    comgr = dlopen(old ? "libamd_comgr.so.2" : "libamd_comgr.so.3", RTLD_NOW | RTLD_GLOBAL);
    if (comgr == nullptr) return LastError();
  }
  int (*count)(std::size_t*) = nullptr;
  int (*name)(std::size_t, const char**) = nullptr;
  std::size_t n = 0;
  if (!BindTo(count, comgr, "amd_comgr_get_isa_count") ||
      !BindTo(name, comgr, "amd_comgr_get_isa_name") || count(&n) != 0) {
    return "comgr does not list its architectures";
  }
  for (std::size_t i = 0; i < n; ++i) {
    const char* isa = nullptr;  // "amdgcn-amd-amdhsa--gfx950"
    if (name(i, &isa) == 0 && std::string_view(isa).starts_with(kIsaPrefix)) {
      archs_.emplace_back(isa + kIsaPrefix.size());
    }
  }
  more_files_.push_back(FileOf(reinterpret_cast<const void*>(count)));
  return {};
}

void Library::FindArchs() {
  int n = 0;
  if (arch_count_ == nullptr || archs_of_ == nullptr || arch_count_(&n) != 0 || n <= 0) return;
  std::vector<int> numbers(static_cast<std::size_t>(n));
  if (archs_of_(numbers.data()) != 0) return;
  for (const int number : numbers) archs_.push_back("sm_" + std::to_string(number));
}

Hello Library::Describe() const {
  return {.problem = {},
          .library = file_,
          .version = version_,
          .more_libraries = more_files_,
          .archs = archs_};
}

std::string Library::Text(Program program, int (*size_of)(Program, std::size_t*),
                          int (*get)(Program, char*)) const {
  std::size_t size = 0;
  if (size_of == nullptr || get == nullptr || size_of(program, &size) != 0 || size == 0) return {};
  std::string text(size, '\0');
  if (get(program, text.data()) != 0) text.clear();
  return text;
}

Reply Library::Compile(const Request& request) const {
  Reply reply;
  Program program{};
  auto names = Raw(request.header_names), texts = Raw(request.header_texts);
  auto options = Raw(request.options);
  reply.code = create_(&program, request.source.c_str(), request.name.c_str(),
                       static_cast<int>(names.size()), texts.data(), names.data());
  if (reply.code != 0) {
    reply.code_name = error_string_(reply.code);
    return reply;
  }
  for (const std::string& entry : request.entries) add_name_(program, entry.c_str());
  reply.code = compile_(program, static_cast<int>(options.size()), options.data());
  reply.code_name = error_string_(reply.code);
  reply.log = Text(program, log_size_, log_);
  while (!reply.log.empty() && reply.log.back() == '\0') reply.log.pop_back();
  if (reply.code == 0) {
    for (const std::string& entry : request.entries) {
      const char* lowered = nullptr;  // Valid until the program is destroyed.
      const int code = lowered_name_(program, entry.c_str(), &lowered);
      reply.symbols.emplace_back(code == 0 && lowered != nullptr ? lowered : "");
    }
    reply.object =
        request.want_ptx ? Text(program, ptx_size_, ptx_) : Text(program, code_size_, code_);
  }
  destroy_(&program);
  return reply;
}

}  // namespace fettle::rtc
