// SPDX-License-Identifier: Apache-2.0
// Test only: NVRTC's calls with a "compiler" that copies its source, and below it the options and
// how often this process and those it was forked from had precompiled headers before. Like the real
// one on a machine of many cores, it starts a thread when it first compiles, with whatever signals
// are unblocked then.
#include <cstring>
#include <string>

#include <pthread.h>
#include <unistd.h>

namespace {

struct Fake {
  std::string source;
};

void* Wait(void*) {
  while (true) pause();
}

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(int code) { return code == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR"; }
int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
int nvrtcCreateProgram(Fake** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  *program = new Fake{source};
  return 0;
}
int nvrtcCompileProgram(Fake* program, int count, const char* const* options) {
  static int precompiled = 0;
  program->source += "\n// precompiled before: " + std::to_string(precompiled) + "\n";
  for (int i = 0; i < count; ++i) {
    program->source += std::string("// option ") + options[i] + "\n";
    if (std::strcmp(options[i], "--pch") == 0) ++precompiled;
  }
  static const bool once = [] {
    pthread_t thread{};
    return pthread_create(&thread, nullptr, Wait, nullptr) == 0 && pthread_detach(thread) == 0;
  }();
  return once ? 0 : 1;
}
int nvrtcDestroyProgram(Fake** program) {
  delete *program;
  return 0;
}
int nvrtcAddNameExpression(Fake*, const char*) { return 0; }
int nvrtcGetLoweredName(Fake*, const char* name, const char** lowered) {
  *lowered = name;
  return 0;
}
int nvrtcGetProgramLogSize(Fake*, std::size_t* size) {
  *size = 1;
  return 0;
}
int nvrtcGetProgramLog(Fake*, char* log) {
  *log = 0;
  return 0;
}
int nvrtcGetCUBINSize(Fake* program, std::size_t* size) {
  *size = program->source.size();
  return 0;
}
int nvrtcGetCUBIN(Fake* program, char* code) {
  std::memcpy(code, program->source.data(), program->source.size());
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
int nvrtcGetSupportedArchs(int* archs) {
  *archs = 90;
  return 0;
}

}  // extern "C"
