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
inline void from_bf16_pairs(const uint16_t* p, vec& even, vec& odd) {
    __m256i lo = _mm256_loadu_si256((const __m256i*)p), hi = _mm256_loadu_si256((const __m256i*)(p + 16));
    auto lower = [](__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); };
    auto upper = [](__m256i pairs) {
        return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
    };
    even = {lower(lo), lower(hi)};
    odd = {upper(lo), upper(hi)};
}

inline vec from_int8(const int8_t* p) {
    auto half = [](const int8_t* p) {
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
    };
    return {half(p), half(p + 8)};
}

// E4M3: its bits, moved under f32's, are the value times 2^-120, subnormals included; 0x7f is NaN
inline vec from_fp8(const uint8_t* p) {
    auto half = [](const uint8_t* p) {
        __m256i top = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)), 24);
        __m256i bits = _mm256_and_si256(_mm256_srai_epi32(top, 4), _mm256_set1_epi32((int)0x87f00000));
        __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0x1p120f));
        __m256i nan = _mm256_cmpeq_epi32(_mm256_slli_epi32(top, 1), _mm256_set1_epi32((int)0xfe000000));
        return _mm256_or_ps(value, _mm256_castsi256_ps(nan));
    };
    return {half(p), half(p + 8)};
}

// E8M0: 2^(e - 127); 255 is NaN
inline vec from_e8m0(const uint8_t* p) {
    auto half = [](const uint8_t* p) {
        __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)), bits = _mm256_slli_epi32(e, 23);
        __m256i zero = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
        __m256i nan = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
        bits = _mm256_blendv_epi8(bits, _mm256_set1_epi32(0x00400000), zero);
        return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), nan));
    };
    return {half(p), half(p + 8)};
}

// 32 nibbles as table entries: the low and the high ones of 16 bytes
inline void from_nibbles(const uint8_t* p, vec table, vec& low, vec& high) {
    auto look_up = [&](__m256i nibble) {
        __m256 bit3 = _mm256_castsi256_ps(_mm256_slli_epi32(nibble, 28));
        __m256 lower = _mm256_permutevar8x32_ps(table.lo, nibble);
        __m256 upper = _mm256_permutevar8x32_ps(table.hi, nibble);
        return _mm256_blendv_ps(lower, upper, bit3);
    };
    __m256i a = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
    __m256i b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)));
    low = {look_up(a), look_up(b)};
    high = {look_up(_mm256_srli_epi32(a, 4)), look_up(_mm256_srli_epi32(b, 4))};
}

// p[0] in the lower 8 lanes, p[1] in the upper
inline vec halves(const float* p) { return {_mm256_broadcast_ss(p), _mm256_broadcast_ss(p + 1)}; }

constexpr int accumulators = 4;  // that a tile of linear holds in registers
constexpr int max_tile = 4;       // rows of x in a tile

}  // namespace acctax::ISA
