// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace fettle {

// A file that is part of the program (cmake/embed.cmake).
struct EmbeddedFile {
  std::string_view name;
  std::string_view bytes;
};

}  // namespace fettle
