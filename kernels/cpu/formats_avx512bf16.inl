// How each packed format is read where the processor multiplies bf16 and int8, and x is bf16. An operand is two
// weights of each of 16 features, k and k + 1, which vdpbf16ps multiplies with the same two of x and adds up in
// f32 (to nearest even, subnormals taken for 0). Codes are exact in bf16, but for NF4's: those are rounded to it,
// by 2^-8 of themselves at most, as wherever NF4 is multiplied in bf16.

using bf16x32 = __m512bh;

constexpr uint16_t to_bf16(float value) {  // to nearest, ties to even
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct NibbleTable {
    alignas(64) uint16_t entry[32];  // 16 values twice: the fifth bit of an index does not matter
    constexpr explicit NibbleTable(const float* values) : entry() {
        for (int i = 0; i < 32; i++) entry[i] = to_bf16(values[i % 16]);
    }
};

struct ByteTable {  // the upper and the lower bytes of 128 magnitudes in bf16
    alignas(64) uint8_t upper[128], lower[128];
    constexpr explicit ByteTable(bool fp8) : upper(), lower() {
        for (int i = 0; i < 128; i++) {
            float value = !fp8 ? (float)i : i < 8 ? i / 512.0f : (8 + i % 8) / 8.0f;
            for (int e = i / 8; fp8 && i >= 8 && e < 7; e++) value /= 2;
            for (int e = i / 8; fp8 && e > 7; e--) value *= 2;
            const uint16_t bits = fp8 && i == 127 ? 0x7fc0 : to_bf16(value);
            upper[i] = bits >> 8, lower[i] = bits & 0xff;
        }
    }
};

template <Format f>
constexpr NibbleTable nibble_table{values(f)};
template <Format f>
constexpr ByteTable byte_table{f == Format::fp8};

inline __m512i upper_or_lower(__m512i a, __m512i b) {  // bytes of a where they are the upper ones of 16 bits
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16(0x00ff), b, a, 0xca);
}

template <Format f>
struct Bf16Weights {
    static constexpr Format format = f;
    static constexpr int operands = per_word(f) / 2;  // of a word
    using X = uint16_t;
    struct Bytes {
        __m512i upper, lower;
    };
    using Word = std::conditional_t<per_word(f) == 4, Bytes, __m512i>;
    using Operand = bf16x32;
    using Sum = vec;

    static Word load_word(const uint8_t* p) {
        const __m512i word = _mm512_loadu_si512(p);
        if constexpr (per_word(f) == 4) {
            auto look_up = [&](const uint8_t* table) {
                return _mm512_permutex2var_epi8(_mm512_load_si512(table), word, _mm512_load_si512(table + 64));
            };
            constexpr int a_or_b_and_c = 0xf8;
            const __m512i magnitude = look_up(byte_table<f>.upper), sign = _mm512_set1_epi8((char)0x80);
            return {_mm512_ternarylogic_epi32(magnitude, word, sign, a_or_b_and_c), look_up(byte_table<f>.lower)};
        } else {
            return word;
        }
    }

    static Operand operand(const Word& word, int i) {
        if constexpr (per_word(f) == 4) {
            return i ? (bf16x32)upper_or_lower(word.upper, _mm512_srli_epi16(word.lower, 8))
                     : (bf16x32)upper_or_lower(_mm512_slli_epi16(word.upper, 8), word.lower);
        } else if constexpr (per_word(f) == 8) {
            const __m512i table = _mm512_load_si512(nibble_table<f>.entry);
            return (bf16x32)_mm512_permutexvar_epi16(_mm512_srli_epi16(word, 4 * i), table);
        } else {
            return (bf16x32)word;
        }
    }

    static Operand broadcast(const X* row, int64_t word, int i) {
        int32_t pair;
        std::memcpy(&pair, row + word * per_word(f) + 2 * i, sizeof pair);
        return (bf16x32)_mm512_set1_epi32(pair);
    }
    static Sum start(const Linear&, const X*, int64_t) { return zero(); }
    static Sum dot(Operand w, Operand x, Sum sum) { return _mm512_dpbf16_ps(sum, w, x); }
    static vec total(Sum sum) { return sum; }
    static vec scaled(const Linear&, vec scale, const X*, int64_t) { return scale; }

    static int64_t packed_bytes(const Linear& a) { return a.words * per_word(f) * sizeof(X); }
    static void pack(const Linear& a, int64_t m, X* out) {
        std::memcpy(out, (const X*)a.x + m * a.K, a.K * sizeof(X));
        std::memset(out + a.K, 0, (a.words * per_word(f) - a.K) * sizeof(X));
    }
};

// nvfp4_a8 with vpdpbusd: it takes one factor without sign, which the weight becomes as 2v + 12. What that adds,
// 12 times the sum of x, is where a span's sum starts from.
struct Vnni {
    static constexpr Format format = Format::nvfp4_a8;
    static constexpr int operands = 2;  // of a word, 4 weights each
    using X = int8_t;
    using Word = __m512i;
    using Operand = __m512i;
    using Sum = __m512i;

    struct Span {  // of x, as pack leaves it
        int8_t x[a8_span];
        float scale;
        int32_t start;
    };
    static const Span& span_of(const X* row, int64_t span) { return ((const Span*)row)[span]; }

    static Word load_word(const uint8_t* p) { return _mm512_loadu_si512(p); }
    static Operand operand(Word word, int i) {
        const __m512i table = _mm512_broadcast_i32x4(
            _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
        const __m512i codes = _mm512_and_si512(_mm512_srli_epi16(word, 4 * i), _mm512_set1_epi8(15));
        return _mm512_shuffle_epi8(table, codes);
    }
    static Operand broadcast(const X* row, int64_t word, int i) {
        int32_t four;
        std::memcpy(&four, span_of(row, word / 2).x + word % 2 * 8 + 4 * i, sizeof four);
        return _mm512_set1_epi32(four);
    }
    static Sum start(const Linear&, const X* row, int64_t span) {
        return _mm512_set1_epi32(span_of(row, span).start);
    }
    static Sum dot(Operand w, Operand x, Sum sum) { return _mm512_dpbusd_epi32(sum, w, x); }
    static vec total(Sum sum) { return _mm512_cvtepi32_ps(sum); }
    static vec scaled(const Linear&, vec scale, const X* row, int64_t span) {
        return mul(scale, set1(span_of(row, span).scale));
    }

    static int64_t packed_bytes(const Linear& a) { return a.spans * sizeof(Span); }
    static void pack(const Linear& a, int64_t m, X* out) {
        constexpr int order[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of the weights in a word's low, then high nibbles
        for (int64_t i = 0; i < a.spans; i++) {
            vec rounded;
            Span& span = ((Span*)out)[i];
            span.scale = round_to_int8(load_x(a, m, i * a8_span), rounded) / 2;
            float x[a8_span];
            store(x, rounded);
            span.start = -12 * (int32_t)sum(rounded);
            for (int k = 0; k < a8_span; k++) span.x[k] = (int8_t)x[k / 8 * 8 + order[k % 8]];
        }
    }
};
