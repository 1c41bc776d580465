#include "kernels.h"

#ifdef __AVX512F__
#define ISA avx512
#define ISA_NAME "avx512"
#include "simd_avx512.h"
#include "kernels.inl"

const acctax::Kernels* acctax::kernels_avx512() { return &ISA::table; }
#else
const acctax::Kernels* acctax::kernels_avx512() { return nullptr; }
#endif
