// The tensor cores' product of a warp: D [16,8] += A [16,16] · B [16,8], A and B in bf16, D in f32.
//
// Lane 4g + t holds of A the rows g and g + 8, a[0] and a[1] in columns 2t and 2t + 1, a[2] and a[3] in columns 2t + 8 and
// 2t + 9; of B the column g in these rows, b[0] and b[1]; and of D the columns 2t and 2t + 1 of row g, d[0] and d[1], and of
// row g + 8, d[2] and d[3].
#pragma once

#include "bf16.cuh"

namespace acctax {

__device__ inline void multiply_add(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    using Pair = unsigned long long;
    auto pair = [](uint32_t low, uint32_t high) { return (Pair)high << 32 | low; };
    const Pair upper = pair(a[0], a[2]), lower = pair(a[1], a[3]), own = pair(b[0], b[1]);
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int s = 0; s < 4; s++) {  // the four lanes that share a row of A, a column of B
        const Pair rows[2] = {__shfl_sync(whole_warp, upper, 4 * g + s), __shfl_sync(whole_warp, lower, 4 * g + s)};
        const Pair columns[2] = {__shfl_sync(whole_warp, own, 8 * t + s), __shfl_sync(whole_warp, own, 8 * t + 4 + s)};
        for (int i = 0; i < 4; i++)
            for (int half = 0; half < 64; half += 32) {
                const uint32_t x = rows[i / 2] >> half, y = columns[i % 2] >> half;
                d[i] += first_of(x) * first_of(y);
                d[i] += second_of(x) * second_of(y);
            }
    }
#endif
}

}  // namespace acctax
