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
// b, but 0 where a is below the least
inline vec unless_below(vec a, vec least, vec b) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, least, _CMP_NLT_UQ), b);
}
// a bit for each lane
inline uint32_t at_least(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
inline vec round(vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

// The one reduction tree: lanes l and l+8, then l+4, l+2, l+1.
inline float sum(vec a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

inline float largest(vec a) { return _mm512_reduce_max_ps(a); }

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
inline void load_pairs(const uint16_t* p, vec& even, vec& odd) {
    const __m512i pairs = _mm512_loadu_si512(p);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
}

// rounds to nearest even
inline void store(uint16_t* p, vec a) {
    __m512i bits = _mm512_castps_si512(a), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    bits = _mm512_mask_mov_epi32(bits, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc00000));
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

// 16 words of 32 bits: what the packed weights of 16 output features come in
using words = __m512i;

inline words load_words(const void* p) { return _mm512_loadu_si512(p); }
inline words widen_bytes(const uint8_t* p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)); }
inline words shift_left(words a, int n) { return _mm512_slli_epi32(a, n); }
inline words shift_right(words a, int n) { return _mm512_srli_epi32(a, n); }
inline words masked(words a, uint32_t mask) { return _mm512_and_si512(a, _mm512_set1_epi32((int)mask)); }
inline words either(words a, words b) { return _mm512_or_si512(a, b); }
inline vec as_float(words a) { return _mm512_castsi512_ps(a); }
inline words as_words(vec a) { return _mm512_castps_si512(a); }
inline vec to_float(words a) { return _mm512_cvtepi32_ps(a); }
inline vec look_up(vec table, words a) { return _mm512_permutexvar_ps(a, table); }  // by the lowest 4 bits
// b where a is `value`, else c
inline vec where_equal(words a, uint32_t value, vec b, vec c) {
    return _mm512_mask_mov_ps(c, _mm512_cmpeq_epi32_mask(a, _mm512_set1_epi32((int)value)), b);
}

constexpr int registers = 2;       // of output features at once
constexpr int max_rows = 8;        // of x at once, where no scales or weights need registers too
constexpr int max_rows_scaled = 6; // of x, or of queries

}  // namespace acctax::ISA
