// SPDX-License-Identifier: Apache-2.0
#include "core/reference_header.h"

#include "core/embedded_reference.h"

namespace fettle {

std::string_view ReferenceHeader() { return EmbeddedReference().front().bytes; }

}  // namespace fettle
