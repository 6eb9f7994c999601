// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cli/mcp_protocol.h"
#include "cli/proposals_client.h"

namespace fettle {

// The tools of one job (docs/mcp.md) over the Proposals service. Every reply is at most 24,000
// bytes of JSON. `client` must outlive them; `job` is used where a call names none. A call that
// takes longer than `progress_every` says each time that it is still under way.
std::unique_ptr<McpTools> MakeProposalTools(
    ProposalsClient& client, std::string job,
    std::chrono::milliseconds progress_every = std::chrono::seconds(5));

}  // namespace fettle
