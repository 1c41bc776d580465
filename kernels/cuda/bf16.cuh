// bf16 as its 16 bits, and two of them in a word of 32 bits, the first in the lower half. Each function is an instruction
// or two under nvcc and has a plain twin for other compilers, with the same results.
#pragma once

#include "device.cuh"

namespace acctax {

using bf16 = uint16_t;

__device__ inline float as_float(uint32_t bits) {
#ifdef __CUDACC__
    return __uint_as_float(bits);
#else
    return __builtin_bit_cast(float, bits);
#endif
}

__device__ inline uint32_t as_bits(float value) {
#ifdef __CUDACC__
    return __float_as_uint(value);
#else
    return __builtin_bit_cast(uint32_t, value);
#endif
}

// Bits that are ordered as the values are, -0 as 0.
__device__ inline uint32_t ordered(float value) {
    const uint32_t bits = as_bits(value + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000;
}

__device__ inline float from_bf16(bf16 a) { return as_float((uint32_t)a << 16); }
__device__ inline float first_of(uint32_t pair) { return as_float(pair << 16); }
__device__ inline float second_of(uint32_t pair) { return as_float(pair & 0xffff0000); }

// Rounds to nearest even.
__device__ inline bf16 to_bf16(float a) {
#ifdef __CUDACC__
    return __bfloat16_as_ushort(__float2bfloat16_rn(a));
#else
    const uint32_t bits = as_bits(a);
    return a == a ? (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fff;
#endif
}

__device__ inline float load(const float* p) { return *p; }
__device__ inline float load(const bf16* p) { return from_bf16(*p); }
__device__ inline void store(float* p, float a) { *p = a; }
__device__ inline void store(bf16* p, float a) { *p = to_bf16(a); }

#ifdef __CUDACC__
__device__ inline __nv_bfloat162 as_pair(uint32_t bits) { return *(__nv_bfloat162*)&bits; }
__device__ inline uint32_t as_bits(__nv_bfloat162 pair) { return *(uint32_t*)&pair; }
#endif

// a · b of both halves, rounded to bf16
__device__ inline uint32_t multiply_pair(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
    return as_bits(__hmul2(as_pair(a), as_pair(b)));
#else
    return to_bf16(first_of(a) * first_of(b)) | (uint32_t)to_bf16(second_of(a) * second_of(b)) << 16;
#endif
}

// a - b of both halves, rounded to bf16
__device__ inline uint32_t subtract_pair(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
    return as_bits(__hsub2(as_pair(a), as_pair(b)));
#else
    return to_bf16(first_of(a) - first_of(b)) | (uint32_t)to_bf16(second_of(a) - second_of(b)) << 16;
#endif
}

// The masked bits and another's: one operation, where the compiler would make two of two constants.
__device__ inline uint32_t merge(uint32_t bits, uint32_t mask, uint32_t other) {
#ifdef __CUDACC__
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(bits), "r"(mask), "r"(other));
    return result;
#else
    return (bits & mask) | other;
#endif
}

// Four bytes out of the eight of `low` and `high`: nibble i of the selector names byte i of the result, and with its
// highest bit set, eight copies of that byte's sign.
__device__ inline uint32_t permute(uint32_t low, uint32_t high, uint32_t selector) {
#ifdef __CUDACC__
    uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
    return result;
#else
    const uint64_t bytes = (uint64_t)high << 32 | low;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t wanted = selector >> 4 * i, byte = bytes >> 8 * (wanted & 7) & 0xff;
        result |= (wanted & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
    }
    return result;
#endif
}

}  // namespace acctax
