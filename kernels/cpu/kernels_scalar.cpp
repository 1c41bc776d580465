#include "kernels.h"

#define ISA scalar
#define ISA_NAME "scalar"
#include "simd_scalar.h"
#include "kernels.inl"

const acctax::Kernels* acctax::kernels_scalar() { return &ISA::table; }
