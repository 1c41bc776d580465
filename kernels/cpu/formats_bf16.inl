// How each packed format is read where the processor multiplies bf16 and the activations are bf16: the values
// before scaling are exact in bf16 (E4M3, int8, E2M1, -8..7; not NF4's), vdpbf16ps adds their products in
// f32, and the scale of a group multiplies the group's sum. vdpbf16ps rounds to nearest even and takes
// subnormals for 0.

using bf16x32 = __m512bh;


inline bf16x32 as_bf16(__m512i a) { return (bf16x32)a; }
inline bf16x32 load_bf16(const uint16_t* p) { return as_bf16(_mm512_loadu_si512(p)); }
inline vec dot(bf16x32 a, bf16x32 b, vec acc) { return _mm512_dpbf16_ps(acc, a, b); }

constexpr uint16_t truncated(float value) { return (uint16_t)(__builtin_bit_cast(uint32_t, value) >> 16); }

struct Table32 {
    alignas(64) uint16_t entry[32];  // 16 values twice: the fifth bit of an index does not matter
    constexpr explicit Table32(const float* values) : entry() {
        for (int i = 0; i < 32; i++) entry[i] = truncated(values[i % 16]);
    }
};

struct Table128 {
    alignas(64) uint16_t entry[128];  // the values of E4M3 without its sign
    constexpr Table128() : entry() {
        for (int i = 0; i < 128; i++) {
            float value = i < 8 ? i / 512.0f : (8 + i % 8) / 8.0f;
            for (int e = i / 8; i >= 8 && e < 7; e++) value /= 2;
            for (int e = i / 8; e > 7; e--) value *= 2;
            entry[i] = i == 127 ? 0x7fc0 : truncated(value);
        }
    }
};

template <Format f>
constexpr Table32 nibble_table{values(f)};
constexpr Table128 fp8_table;

inline bf16x32 bf16_from_fp8(const uint8_t* p) {
    const __m512i* table = (const __m512i*)fp8_table.entry;
    __m512i code = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)p));
    __m512i small = _mm512_permutex2var_epi16(table[0], code, table[1]);
    __m512i large = _mm512_permutex2var_epi16(table[2], code, table[3]);
    __m512i value = _mm512_mask_mov_epi16(small, _mm512_test_epi16_mask(code, _mm512_set1_epi16(64)), large);
    __m512i sign = _mm512_slli_epi16(code, 8);  // its top bit; what stands below it is masked off
    constexpr int a_or_b_and_c = 0xf8;
    return as_bf16(_mm512_ternarylogic_epi32(value, sign, _mm512_set1_epi16((short)0x8000), a_or_b_and_c));
}

inline bf16x32 bf16_from_int8(const int8_t* p) {
    alignas(64) static constexpr uint16_t upper_halves[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                              23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                              45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    __m512i low = _mm512_castps_si512(from_int8(p)), high = _mm512_castps_si512(from_int8(p + 16));
    return as_bf16(_mm512_permutex2var_epi16(low, _mm512_load_si512(upper_halves), high));
}

struct Scaled {
    bf16x32 even, odd;
    vec scale;  // 4 lanes for each 16 weights
};

inline void madd(vec& acc, bf16x32 w, const uint16_t* x) { acc = dot(w, load_bf16(x), acc); }

inline void madd(vec& acc, const Scaled& w, const uint16_t* x) {
    vec products = dot(w.even, load_bf16(x), zero());
    products = dot(w.odd, load_bf16(x + 32), products);
    acc = fma(products, w.scale, acc);
}

template <Format f>
struct Bf16Row : Source {
    static constexpr int block = nibbles(f) ? 64 : 32;
    static constexpr int bytes = block * bits(f) / 8;
    static constexpr bool paired = nibbles(f);  // x as 32 even and 32 odd elements
    using X = uint16_t;

    static void pack(const uint16_t* x, uint16_t* out) {
        for (int i = 0; i < block; i++) out[paired ? i / 2 + i % 2 * 32 : i] = x[i];
    }

    auto decode(int64_t b) const {
        const uint8_t* p = codes + b * bytes;
        if constexpr (f == Format::bf16) {
            return load_bf16((const uint16_t*)p);
        } else if constexpr (f == Format::fp8) {
            return bf16_from_fp8(p);
        } else if constexpr (f == Format::int8) {
            return bf16_from_int8((const int8_t*)p);
        } else {
            const __m512i table = _mm512_load_si512(nibble_table<f>.entry);
            __m512i bytes = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)p));
            return Scaled{as_bf16(_mm512_permutexvar_epi16(bytes, table)),
                          as_bf16(_mm512_permutexvar_epi16(_mm512_srli_epi16(bytes, 4), table)),
                          scale(b)};
        }
    }

    vec scale(int64_t b) const {
        if constexpr (f == Format::int4) {
            return set1(widen(((const uint16_t*)scales)[b * block >> shift]));
        } else if constexpr (f == Format::mxfp4) {
            return halves((const float*)scales + 2 * b);
        } else {
            const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
            const __m128 four = _mm_loadu_ps((const float*)scales + 4 * b);
            return _mm512_permutexvar_ps(lane, _mm512_castps128_ps512(four));
        }
    }
};
