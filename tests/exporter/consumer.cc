// SPDX-License-Identifier: Apache-2.0
#include "tests/exporter/consumer.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

namespace fettle {

namespace fs = std::filesystem;

CommandResult RunCommand(const std::string& command) {
  CommandResult result;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    result.output.append(buffer, n);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

TestFolder::TestFolder() {
  std::string pattern = ::testing::TempDir() + "/consumer.XXXXXX";
  EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
  path_ = pattern;
}

TestFolder::~TestFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

void TestFolder::Write(const std::string& name, const std::string& text) const {
  std::ofstream(fs::path(path_) / name, std::ios::binary) << text;
}

std::string TestFolder::Read(const std::string& name) const {
  std::ifstream file(fs::path(path_) / name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string ShortDigestOf(const BundleFiles& bundle) {
  const auto manifest = nlohmann::json::parse(bundle.at("manifest.json"));
  return manifest["bundle"]["digest"].get<std::string>().substr(0, 8);
}

std::string NamespaceOf(const BundleFiles& bundle) {
  const auto manifest = nlohmann::json::parse(bundle.at("manifest.json"));
  return manifest["bundle"]["name"].get<std::string>() + "_" + ShortDigestOf(bundle);
}

std::string CompileConsumer(const TestFolder& folder, const std::string& source,
                            const BundleFiles& bundle, const std::string& bundle_path,
                            const std::string& more_flags) {
  folder.Write("main.cc", source);
  const std::string program = folder.path() + "/main";
  const CommandResult built =
      RunCommand(fmt::format("g++ -std=c++17 -O1 -Wall -Wextra -Wshadow -Wconversion -Werror "
                             "-fno-exceptions -fno-rtti -pthread -I{1}/include "
                             "'-DFETTLE_ROOT_{2}=\"{1}\"' {3} {0}/main.cc -o {0}/main -ldl "
                             "'-Wl,--export-dynamic-symbol=fettle_rt_*'",
                             folder.path(), bundle_path, NamespaceOf(bundle), more_flags));
  EXPECT_EQ(built.code, 0) << built.output;
  return program;
}

}  // namespace fettle
