// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "store/database.h"

namespace fettle {

// All schema steps, oldest first. Append-only.
std::span<const Migration> SchemaSteps();

}  // namespace fettle
