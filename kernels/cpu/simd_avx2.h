// 16 lanes of f32 in two AVX2 registers.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace acctax::ISA {

struct vec {
    __m256 lo, hi;
};

inline vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline vec set1(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
inline vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, vec a) { _mm256_storeu_ps(p, a.lo), _mm256_storeu_ps(p + 8, a.hi); }
inline vec add(vec a, vec b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline vec sub(vec a, vec b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline vec mul(vec a, vec b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline vec div(vec a, vec b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline vec fma(vec a, vec b, vec c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// min, max: b where either is NaN
inline vec min(vec a, vec b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline vec max(vec a, vec b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
// b, but 0 where a is below the least
inline vec unless_below(vec a, vec least, vec b) {
    return {_mm256_and_ps(_mm256_cmp_ps(a.lo, least.lo, _CMP_NLT_UQ), b.lo),
            _mm256_and_ps(_mm256_cmp_ps(a.hi, least.hi, _CMP_NLT_UQ), b.hi)};
}
// a bit for each lane
inline uint32_t at_least(vec a, vec b) {
    const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ));
    return lo | _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ)) << 8;
}
inline vec round(vec a) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, nearest), _mm256_round_ps(a.hi, nearest)};
}

// The one reduction tree: lanes l and l+8, then l+4, l+2, l+1.
inline float sum(vec a) {
    __m256 b = _mm256_add_ps(a.lo, a.hi);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

inline float largest(vec a) {
    alignas(32) float lane[16], most = -__builtin_inff();
    store(lane, a);
    for (float l : lane) most = l > most ? l : most;
    return most;
}

// 2^n for whole n in [-126, 127]
inline vec pow2(vec n) {
    auto half = [](__m256 a) {
        __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
        return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
    };
    return {half(n.lo), half(n.hi)};
}

inline vec from_bf16(const uint16_t* p) {
    auto half = [](const uint16_t* p) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
        return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
    };
    return {half(p), half(p + 8)};
}

// 32 bf16 as their even and their odd elements
inline void load_pairs(const uint16_t* p, vec& even, vec& odd) {
    auto half = [](const uint16_t* p, __m256& even, __m256& odd) {
        const __m256i pairs = _mm256_loadu_si256((const __m256i*)p);
        even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
        odd = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
    };
    half(p, even.lo, odd.lo), half(p + 16, even.hi, odd.hi);
}

// rounds to nearest even
inline void store(uint16_t* p, vec a) {
    auto half = [](__m256 a) {
        __m256i bits = _mm256_castps_si256(a), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        bits = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
        const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
        return _mm256_srli_epi32(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), nan), 16);
    };
    const __m256i packed = _mm256_packus_epi32(half(a.lo), half(a.hi));  // within halves of 128 bits
    _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(packed, 0b11011000));
}

// 16 words of 32 bits: what the packed weights of 16 output features come in
struct words {
    __m256i lo, hi;
};

inline words load_words(const void* p) {
    return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)p + 1)};
}
inline words widen_bytes(const uint8_t* p) {
    return {_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)),
            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)))};
}
inline words shift_left(words a, int n) { return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)}; }
inline words shift_right(words a, int n) { return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)}; }
inline words masked(words a, uint32_t mask) {
    const __m256i all = _mm256_set1_epi32((int)mask);
    return {_mm256_and_si256(a.lo, all), _mm256_and_si256(a.hi, all)};
}
inline words either(words a, words b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
inline vec as_float(words a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
inline words as_words(vec a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
inline vec to_float(words a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline vec look_up(vec table, words a) {  // by the lowest 4 bits
    auto half = [&](__m256i index) {
        const __m256 bit3 = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
        const __m256 lower = _mm256_permutevar8x32_ps(table.lo, index);
        return _mm256_blendv_ps(lower, _mm256_permutevar8x32_ps(table.hi, index), bit3);
    };
    return {half(a.lo), half(a.hi)};
}
// b where a is `value`, else c
inline vec where_equal(words a, uint32_t value, vec b, vec c) {
    auto half = [&](__m256i a, __m256 b, __m256 c) {
        return _mm256_blendv_ps(c, b, _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, _mm256_set1_epi32((int)value))));
    };
    return {half(a.lo, b.lo, c.lo), half(a.hi, b.hi, c.hi)};
}

constexpr int registers = 2;       // of output features at once
constexpr int max_rows = 2;        // of x at once, where no scales or weights need registers too
constexpr int max_rows_scaled = 2; // of x, or of queries

}  // namespace acctax::ISA
