// SPDX-License-Identifier: Apache-2.0
#pragma once

// Scripted results of work units, as a worker would send them.

#include <string>

#include "core/work_unit.h"

namespace fettle {

// A registration that passed.
UnitResult PassedRegistration(const WorkUnit& unit);
// A registration that was refused.
UnitResult RefusedRegistration(const WorkUnit& unit, const std::string& reason_code);
// A verified and measured candidate with this speed-up over the denominator, and over the incumbent
// where the unit names one. The noise is 0.1 % and the same in every call.
UnitResult MeasuredResult(const WorkUnit& unit, double ratio, double over_incumbent);
// The same result of a worker that keeps to the unit's cap of device time: where it took more, it
// ended at the cap.
UnitResult WithinCap(const WorkUnit& unit, UnitResult result);
// A verdict of a stage.
UnitResult JudgedResult(const WorkUnit& unit, Verdict verdict, Stage stage,
                        const std::string& reason_code);

}  // namespace fettle
