// 16 lanes of f32 as an array: what every compiler can read. No fused multiply-add: it would be a library
// call where the processor has none.
#pragma once

#include <cstdint>
#include <cstring>

namespace acctax::ISA {

struct vec {
    float lane[16];
};

template <class F>
inline vec each(F f) {
    vec r;
    for (int i = 0; i < 16; i++) r.lane[i] = f(i);
    return r;
}

inline vec set1(float a) { return each([&](int) { return a; }); }
inline vec zero() { return set1(0.0f); }
inline vec load(const float* p) { return each([&](int i) { return p[i]; }); }
inline void store(float* p, const vec& a) { std::memcpy(p, a.lane, sizeof a.lane); }
inline vec add(const vec& a, const vec& b) { return each([&](int i) { return a.lane[i] + b.lane[i]; }); }
inline vec sub(const vec& a, const vec& b) { return each([&](int i) { return a.lane[i] - b.lane[i]; }); }
inline vec mul(const vec& a, const vec& b) { return each([&](int i) { return a.lane[i] * b.lane[i]; }); }
inline vec div(const vec& a, const vec& b) { return each([&](int i) { return a.lane[i] / b.lane[i]; }); }
inline vec fma(const vec& a, const vec& b, const vec& c) { return add(mul(a, b), c); }
// min, max: b where either is NaN
inline vec min(const vec& a, const vec& b) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline vec max(const vec& a, const vec& b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline vec round(const vec& a) { return each([&](int i) { return __builtin_nearbyintf(a.lane[i]); }); }

// The one reduction tree: lanes l and l+8, then l+4, l+2, l+1.
inline float sum(vec a) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) a.lane[i] += a.lane[i + half];
    return a.lane[0];
}

inline float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// 2^n for whole n in [-126, 127]
inline vec pow2(const vec& n) {
    return each([&](int i) {
        if (n.lane[i] != n.lane[i]) return 1.0f;  // NaN: the factor beside it carries it on
        return from_bits((uint32_t)((int)n.lane[i] + 127) << 23);
    });
}

inline vec from_bf16(const uint16_t* p) {
    return each([&](int i) { return from_bits((uint32_t)p[i] << 16); });
}

// 32 bf16 as their even and their odd elements
inline void from_bf16_pairs(const uint16_t* p, vec& even, vec& odd) {
    even = each([&](int i) { return from_bits((uint32_t)p[2 * i] << 16); });
    odd = each([&](int i) { return from_bits((uint32_t)p[2 * i + 1] << 16); });
}

inline vec from_int8(const int8_t* p) {
    return each([&](int i) { return (float)p[i]; });
}

// E4M3: its bits, moved under f32's, are the value times 2^-120, subnormals included; 0x7f is NaN
inline vec from_fp8(const uint8_t* p) {
    return each([&](int i) {
        uint32_t sign = (uint32_t)(p[i] & 0x80) << 24, rest = p[i] & 0x7f;
        return rest == 0x7f ? __builtin_nanf("") : from_bits(sign | rest << 20) * 0x1p120f;
    });
}

// E8M0: 2^(e - 127); 255 is NaN
inline vec from_e8m0(const uint8_t* p) {
    return each([&](int i) {
        return from_bits(p[i] == 255 ? 0x7fc00000 : p[i] == 0 ? 0x00400000 : (uint32_t)p[i] << 23);
    });
}

// 32 nibbles as table entries: the low and the high ones of 16 bytes
inline void from_nibbles(const uint8_t* p, const vec& table, vec& low, vec& high) {
    low = each([&](int i) { return table.lane[p[i] & 15]; });
    high = each([&](int i) { return table.lane[p[i] >> 4]; });
}

// p[0] in the lower 8 lanes, p[1] in the upper
inline vec halves(const float* p) {
    return each([&](int i) { return p[i / 8]; });
}

constexpr int accumulators = 4;  // that a tile of linear holds in registers
constexpr int max_tile = 4;       // rows of x in a tile

}  // namespace acctax::ISA
