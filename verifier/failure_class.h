// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/bound.h"

namespace fettle {

// What distinguishes a failing held-out case from the cases that passed, in one phrase about one
// dim or dtype, without its sizes: "cols not a multiple of 4", "rows = 0", "T = f16", "rows larger
// than in every case that passed". "no single dim or dtype explains it" when nothing does. True of
// `failing` and of none of `passing`.
std::string FailureClass(const BoundCase& failing, const std::vector<BoundCase>& passing);

}  // namespace fettle
