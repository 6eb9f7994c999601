// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fettle {

// What a job could keep busy now.
struct JobDemand {
  std::string job_id;
  std::string target;                   // "auto" until a device was chosen.
  std::string device_model, toolchain;  // Empty until then.
  std::string account, partition, qos;  // As submitted; empty: of the configuration.
  std::int64_t units = 0;               // That can run side by side; 0: none for the moment.
};

}  // namespace fettle
