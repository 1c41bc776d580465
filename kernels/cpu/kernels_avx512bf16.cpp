// AVX-512's kernels, with products of bf16 and of int8 in place of f32's where x is bf16.
#include "kernels.h"

#ifdef __AVX512BF16__
#include <type_traits>

#define ISA avx512bf16
#include "simd_avx512.h"

namespace acctax::ISA {
namespace {

#include "elements.inl"
#include "formats.inl"
#include "formats_a8.inl"
#include "formats_avx512bf16.inl"
#include "linear.inl"

// None where f32 products are needed.
Plan plan(const Linear& a) {
    if (a.x_type != Type::bf16) return {};
    switch (a.format) {
        case Format::bf16: return plan_as<Bf16Weights<Format::bf16>>(a);
        case Format::fp8: return plan_as<Bf16Weights<Format::fp8>>(a);
        case Format::int8: return plan_as<Bf16Weights<Format::int8>>(a);
        case Format::int4: return plan_as<Bf16Weights<Format::int4>>(a);
        case Format::nvfp4: return plan_as<Bf16Weights<Format::nvfp4>>(a);
        case Format::mxfp4: return plan_as<Bf16Weights<Format::mxfp4>>(a);
        case Format::nf4: return plan_as<Bf16Weights<Format::nf4>>(a);
        case Format::nvfp4_a8: return plan_as<Vnni>(a);
        default: return {};
    }
}

int64_t packed_stride(const Linear& a) {
    const Plan p = plan(a);
    return p.run ? p.packed_stride : kernels_avx512()->packed_stride(a);
}

void pack_x(const Linear& a, void* packed_x) {
    const Plan p = plan(a);
    p.run ? p.pack(a, packed_x) : kernels_avx512()->pack_x(a, packed_x);
}

void linear(const Linear& a, int64_t begin, int64_t end) {
    const Plan p = plan(a);
    p.run ? p.run(a, begin, end) : kernels_avx512()->linear(a, begin, end);
}

}  // namespace
}  // namespace acctax::ISA

const acctax::Kernels* acctax::kernels_avx512bf16() {
    static const Kernels table = [] {
        Kernels k = *kernels_avx512();
        k.isa = "avx512bf16";
        k.packed_stride = ISA::packed_stride, k.pack_x = ISA::pack_x, k.linear = ISA::linear;
        return k;
    }();
    return &table;
}
#else
const acctax::Kernels* acctax::kernels_avx512bf16() { return nullptr; }
#endif
