#include "kernels.h"

#ifdef __AVX2__
#define ISA avx2
#define ISA_NAME "avx2"
#include "simd_avx2.h"
#include "kernels.inl"

const acctax::Kernels* acctax::kernels_avx2() { return &ISA::table; }
#else
const acctax::Kernels* acctax::kernels_avx2() { return nullptr; }
#endif
