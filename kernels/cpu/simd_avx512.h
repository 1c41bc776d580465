// 16 lanes of f32 in one AVX-512 register.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace acctax::ISA {

using vec = __m512;

inline vec zero() { return _mm512_setzero_ps(); }
inline vec set1(float a) { return _mm512_set1_ps(a); }
inline vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, vec a) { _mm512_storeu_ps(p, a); }
inline vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
inline vec sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
inline vec mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
inline vec div(vec a, vec b) { return _mm512_div_ps(a, b); }
inline vec fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
// min, max: b where either is NaN
inline vec min(vec a, vec b) { return _mm512_min_ps(a, b); }
inline vec max(vec a, vec b) { return _mm512_max_ps(a, b); }
inline vec round(vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

// The one reduction tree: lanes l and l+8, then l+4, l+2, l+1.
inline float sum(vec a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

// 2^n for whole n in [-126, 127]
inline vec pow2(vec n) {
    __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}

inline vec from_bf16(const uint16_t* p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

// 32 bf16 as their even and their odd elements
inline void from_bf16_pairs(const uint16_t* p, vec& even, vec& odd) {
    __m512i pairs = _mm512_loadu_si512(p);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
}

inline vec from_int8(const int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
}

// E4M3: its bits, moved under f32's, are the value times 2^-120, subnormals included; 0x7f is NaN
inline vec from_fp8(const uint8_t* p) {
    __m512i top = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)), 24);
    __m512i bits = _mm512_and_si512(_mm512_srai_epi32(top, 4), _mm512_set1_epi32((int)0x87f00000));
    vec value = _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p120f));
    __mmask16 nan = _mm512_cmpeq_epi32_mask(_mm512_slli_epi32(top, 1), _mm512_set1_epi32((int)0xfe000000));
    return _mm512_mask_mov_ps(value, nan, _mm512_set1_ps(__builtin_nanf("")));
}

// E8M0: 2^(e - 127); 255 is NaN
inline vec from_e8m0(const uint8_t* p) {
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)), bits = _mm512_slli_epi32(e, 23);
    bits = _mm512_mask_mov_epi32(bits, _mm512_testn_epi32_mask(e, e), _mm512_set1_epi32(0x00400000));
    __mmask16 nan = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255));
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000)));
}

// 32 nibbles as table entries: the low and the high ones of 16 bytes
inline void from_nibbles(const uint8_t* p, vec table, vec& low, vec& high) {
    __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
    low = _mm512_permutexvar_ps(bytes, table);
    high = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), table);
}

// p[0] in the lower 8 lanes, p[1] in the upper
inline vec halves(const float* p) {
    const __m512i lane = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128 two = _mm_castsi128_ps(_mm_loadl_epi64((const __m128i*)p));
    return _mm512_permutexvar_ps(lane, _mm512_castps128_ps512(two));
}

constexpr int accumulators = 20;  // that a tile of linear holds in registers
constexpr int max_tile = 8;       // rows of x in a tile

}  // namespace acctax::ISA
