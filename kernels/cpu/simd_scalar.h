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
// b, but 0 where a is below the least
inline vec unless_below(const vec& a, const vec& least, const vec& b) {
    return each([&](int i) { return a.lane[i] < least.lane[i] ? 0.0f : b.lane[i]; });
}
// a bit for each lane
inline uint32_t at_least(const vec& a, const vec& b) {
    uint32_t lanes = 0;
    for (int i = 0; i < 16; i++) lanes |= (uint32_t)(a.lane[i] >= b.lane[i]) << i;
    return lanes;
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

inline float largest(const vec& a) {
    float most = -__builtin_inff();
    for (float l : a.lane) most = l > most ? l : most;
    return most;
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
inline void load_pairs(const uint16_t* p, vec& even, vec& odd) {
    even = each([&](int i) { return from_bits((uint32_t)p[2 * i] << 16); });
    odd = each([&](int i) { return from_bits((uint32_t)p[2 * i + 1] << 16); });
}

// rounds to nearest even
inline void store(uint16_t* p, const vec& a) {
    for (int i = 0; i < 16; i++) {
        uint32_t bits;
        std::memcpy(&bits, &a.lane[i], 4);
        p[i] = a.lane[i] == a.lane[i] ? (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fc0;
    }
}

// 16 words of 32 bits: what the packed weights of 16 output features come in
struct words {
    uint32_t lane[16];
};

template <class F>
inline words each_word(F f) {
    words r;
    for (int i = 0; i < 16; i++) r.lane[i] = f(i);
    return r;
}

inline words load_words(const void* p) {
    words a;
    std::memcpy(a.lane, p, sizeof a.lane);
    return a;
}
inline words widen_bytes(const uint8_t* p) {
    return each_word([&](int i) { return p[i]; });
}
inline words shift_left(const words& a, int n) {
    return each_word([&](int i) { return a.lane[i] << n; });
}
inline words shift_right(const words& a, int n) {
    return each_word([&](int i) { return a.lane[i] >> n; });
}
inline words masked(const words& a, uint32_t mask) {
    return each_word([&](int i) { return a.lane[i] & mask; });
}
inline words either(const words& a, const words& b) {
    return each_word([&](int i) { return a.lane[i] | b.lane[i]; });
}
inline vec as_float(const words& a) {
    return each([&](int i) { return from_bits(a.lane[i]); });
}
inline words as_words(const vec& a) { return load_words(a.lane); }
inline vec to_float(const words& a) {
    return each([&](int i) { return (float)(int32_t)a.lane[i]; });
}
inline vec look_up(const vec& table, const words& a) {  // by the lowest 4 bits
    return each([&](int i) { return table.lane[a.lane[i] & 15]; });
}
// b where a is `value`, else c
inline vec where_equal(const words& a, uint32_t value, const vec& b, const vec& c) {
    return each([&](int i) { return a.lane[i] == value ? b.lane[i] : c.lane[i]; });
}

constexpr int registers = 1;       // of output features at once
constexpr int max_rows = 4;        // of x at once, where no scales or weights need registers too
constexpr int max_rows_scaled = 2; // of x, or of queries

}  // namespace acctax::ISA
