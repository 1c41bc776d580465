// AVX-512's kernels, with vdpbf16ps in place of f32 products where activations and weights are exact in bf16.
#include "kernels.h"

#ifdef __AVX512BF16__
#define ISA avx512bf16
#include "simd_avx512.h"

namespace acctax::ISA {
namespace {

#include "elements.inl"
#include "formats.inl"
#include "formats_bf16.inl"
#include "linear.inl"

template <Format f>
Plan plan_as(const Linear& a) {
    return plan_as<Bf16Row<f>, f, uint16_t>(a);
}

// None where f32 products are needed.
Plan plan(const Linear& a) {
    if (a.x_type != Type::bf16) return {};
    switch (a.format) {
        case Format::bf16: return plan_as<Format::bf16>(a);
        case Format::fp8: return plan_as<Format::fp8>(a);
        case Format::int8: return plan_as<Format::int8>(a);
        case Format::int4: return one_scale(a, 64) ? plan_as<Format::int4>(a) : Plan{};
        case Format::nvfp4: return plan_as<Format::nvfp4>(a);
        case Format::mxfp4: return plan_as<Format::mxfp4>(a);
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
