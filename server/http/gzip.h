// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fettle {

// The bytes as gzip (RFC 1952), at a level that takes about a millisecond per 100 kB.
std::string Gzip(std::string_view bytes);

}  // namespace fettle
