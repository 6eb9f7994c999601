// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/facts/code_facts.h"
#include "core/code_object/elf.h"

namespace fettle {

// The two formats; see ReadFacts.
absl::StatusOr<CodeFacts> ReadAmdFacts(const ElfFile& elf);
absl::StatusOr<CodeFacts> ReadCubinFacts(const ElfFile& elf);

// Counts the instructions of one kernel into `facts`. AMD: gfx90a, gfx942, gfx950; false, and
// nothing counted, for another architecture or code that does not decode.
bool CountAmdInstructions(std::string_view arch, ByteSpan code, KernelFacts& facts);
void CountCubinInstructions(ByteSpan code, KernelFacts& facts);

}  // namespace fettle
