// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_data.h"

#include "agent/embedded_agent.h"
#include "core/status_macros.h"

namespace fettle {

std::string_view AgentData(std::string_view name) {
  for (const EmbeddedFile& file : EmbeddedAgentFiles()) {
    if (file.name == name) return file.bytes;
  }
  FETTLE_CHECK(!"an embedded file of that name");
  return "";
}

std::vector<std::string_view> AgentDataNames() {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : EmbeddedAgentFiles()) names.push_back(file.name);
  return names;
}

}  // namespace fettle
