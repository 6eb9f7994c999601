// SPDX-License-Identifier: Apache-2.0
#pragma once

// Programs that use an exported bundle, built and run by tests.

#include <string>

#include "exporter/bundle.h"

namespace fettle {

struct CommandResult {
  int code = -1;
  std::string output;  // stdout and stderr.
};
// Runs a shell command.
CommandResult RunCommand(const std::string& command);

// A folder that goes away with the object.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& text) const;
  std::string Read(const std::string& name) const;

 private:
  std::string path_;
};

// "row_sum_1a2b3c4d", and "1a2b3c4d".
std::string NamespaceOf(const BundleFiles& bundle);
std::string ShortDigestOf(const BundleFiles& bundle);

// Compiles `source` (in `folder`) against the bundle lying in `bundle_path`, with the flags of a
// careful library: C++17, no exceptions, no RTTI, warnings as errors. Fails the test on an error.
// Returns the program's path.
std::string CompileConsumer(const TestFolder& folder, const std::string& source,
                            const BundleFiles& bundle, const std::string& bundle_path,
                            const std::string& more_flags);

}  // namespace fettle
