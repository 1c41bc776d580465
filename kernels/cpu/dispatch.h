// Which instruction set's kernels run in this process.
#pragma once

#include "kernels.h"

namespace acctax {

const Kernels& kernels();

}  // namespace acctax

// Selects by name ("avx512bf16", "avx512", "avx2", "scalar"), or the best that this processor runs ("").
// Returns the name in use, or null, changing nothing, where it cannot run here.
extern "C" const char* acctax_select_isa(const char* name);
