// SPDX-License-Identifier: Apache-2.0
// Test only: hiprtc's calls (and the two of comgr that are asked first), forwarded to NVRTC, so
// that the hiprtc compiler's path runs and makes code that hip_runtime.cc can launch. Whatever gfx
// architecture is asked for, the code is for FETTLE_FAKE_HIP_ARCH, or sm_90a.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "hip_on_cuda_header.h"

namespace {

using Program = void*;

template <typename F>
F Nvrtc(const char* name) {
  static void* const library = [] {
    for (const char* file : {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
                             "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12"}) {
      if (void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return handle;
    }
    return static_cast<void*>(nullptr);
  }();
  void* symbol = library == nullptr ? nullptr : dlsym(library, name);
  if (symbol == nullptr) std::abort();
  return reinterpret_cast<F>(symbol);
}

bool StartsWith(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// fettle's headers for AMD, and its stubs over CUDA's own names, have no place under NVRTC.
bool IsForAmd(const char* name) {
  return StartsWith(name, "fettle_") || StartsWith(name, "cuda") || StartsWith(name, "cooperative");
}

}  // namespace

extern "C" {

const char* hiprtcGetErrorString(int code) {
  return Nvrtc<const char* (*)(int)>("nvrtcGetErrorString")(code);
}
int hiprtcVersion(int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
int hiprtcCreateProgram(Program* program, const char* source, const char* name, int count,
                        const char** texts, const char** names) {
  std::vector<const char*> kept_texts{kHipOnCuda}, kept_names{"fettle_hip_on_cuda.h"};
  for (int i = 0; i < count; ++i) {
    if (IsForAmd(names[i])) continue;
    kept_texts.push_back(texts[i]);
    kept_names.push_back(names[i]);
  }
  using Create = int (*)(Program*, const char*, const char*, int, const char**, const char**);
  return Nvrtc<Create>("nvrtcCreateProgram")(program, source, name,
                                             static_cast<int>(kept_names.size()), kept_texts.data(),
                                             kept_names.data());
}
int hiprtcCompileProgram(Program program, int count, const char** options) {
  const char* arch = std::getenv("FETTLE_FAKE_HIP_ARCH");
  std::vector<std::string> translated{
      std::string("--gpu-architecture=") + (arch != nullptr ? arch : "sm_90a"),
      "-I/usr/local/cuda/include"};
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (option == "-include" && i + 1 < count) {
      if (std::string(options[++i]) == "fettle_hip.h") {
        translated.emplace_back("--pre-include=fettle_hip_on_cuda.h");
      }
    } else if (option == "-ffast-math") {
      translated.emplace_back("--use_fast_math");
    } else if (option.rfind("-D", 0) == 0 || option.rfind("-std=", 0) == 0) {
      translated.push_back(option.rfind("-std=", 0) == 0 ? "-" + option : option);
    }
  }
  std::vector<const char*> raw;
  for (const std::string& option : translated) raw.push_back(option.c_str());
  return Nvrtc<int (*)(Program, int, const char**)>("nvrtcCompileProgram")(
      program, static_cast<int>(raw.size()), raw.data());
}
int hiprtcDestroyProgram(Program* program) {
  return Nvrtc<int (*)(Program*)>("nvrtcDestroyProgram")(program);
}
int hiprtcAddNameExpression(Program program, const char* name) {
  return Nvrtc<int (*)(Program, const char*)>("nvrtcAddNameExpression")(program, name);
}
int hiprtcGetLoweredName(Program program, const char* name, const char** lowered) {
  return Nvrtc<int (*)(Program, const char*, const char**)>("nvrtcGetLoweredName")(program, name,
                                                                                   lowered);
}
int hiprtcGetProgramLogSize(Program program, std::size_t* size) {
  return Nvrtc<int (*)(Program, std::size_t*)>("nvrtcGetProgramLogSize")(program, size);
}
int hiprtcGetProgramLog(Program program, char* log) {
  return Nvrtc<int (*)(Program, char*)>("nvrtcGetProgramLog")(program, log);
}
int hiprtcGetCodeSize(Program program, std::size_t* size) {
  return Nvrtc<int (*)(Program, std::size_t*)>("nvrtcGetCUBINSize")(program, size);
}
int hiprtcGetCode(Program program, char* code) {
  return Nvrtc<int (*)(Program, char*)>("nvrtcGetCUBIN")(program, code);
}

int amd_comgr_get_isa_count(std::size_t* count) {
  *count = 1;
  return 0;
}
int amd_comgr_get_isa_name(std::size_t, const char** name) {
  *name = "amdgcn-amd-amdhsa--gfx950";
  return 0;
}

}  // extern "C"
