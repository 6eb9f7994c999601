// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace fettle {

// The text of core/fettle_reference.h, which references and checkers include.
std::string_view ReferenceHeader();

}  // namespace fettle
