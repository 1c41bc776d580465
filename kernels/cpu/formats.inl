// How each packed format is read, in f32. A word of 32 bits holds `per_word` weights of one output feature; the words of
// a tile's features lie side by side (quant/tiles.py draws them), and operand i is the i-th weight of 16 of them. It is
// multiplied with one element of x, the same for all features. Codes are exact in f32; the sum over a span, the weights
// under one scale, is scaled as a whole.

constexpr float e2m1[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
constexpr float offset_8[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr float normal_float[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

constexpr const float* values(Format f) {
    return f == Format::int4 ? offset_8 : f == Format::nf4 ? normal_float : e2m1;
}

inline int64_t round_up(int64_t a, int64_t to) { return (a + to - 1) / to * to; }

inline vec from_e4m3(words byte) {  // moved under f32's bits it is the value times 2^-120, subnormals included
    const words rest = masked(byte, 0x7f);
    const words bits = either(shift_left(masked(byte, 0x80), 24), shift_left(rest, 20));
    return where_equal(rest, 0x7f, set1(__builtin_nanf("")), mul(as_float(bits), set1(0x1p120f)));
}

inline vec from_e8m0(words exponent) {  // 2^(e - 127); 255 is NaN
    const vec power = where_equal(exponent, 0, set1(0x1p-127f), as_float(shift_left(exponent, 23)));
    return where_equal(exponent, 255, set1(__builtin_nanf("")), power);
}

// Sign and magnitude: what int8 is stored as in tiles.
inline vec from_signed_byte(words byte) {
    const words sign = shift_left(masked(byte, 0x80), 24);
    return as_float(either(as_words(to_float(masked(byte, 0x7f))), sign));
}

// 16 elements of x, zeros beyond K.
inline vec load_x(const Linear& a, int64_t m, int64_t k) {
    const int64_t at = m * a.K + k;
    return a.x_type == Type::f32 ? load_row((const float*)a.x + at, a.K - k) : load_row((const uint16_t*)a.x + at, a.K - k);
}

// The block scales of a tile's 16 features.
template <Format f>
inline vec scale_of(const uint8_t* p) {
    if constexpr (f == Format::int4) return from_bf16((const uint16_t*)p);
    else if constexpr (f == Format::nf4) return load((const float*)p);
    else if constexpr (f == Format::mxfp4) return from_e8m0(widen_bytes(p));
    else return from_e4m3(widen_bytes(p));
}

template <Format f>
struct Weights {
    static constexpr Format format = f;
    static constexpr int operands = per_word(f);  // of a word
    using X = float;
    using Word = words;
    using Operand = vec;
    using Sum = vec;

    static Word load_word(const uint8_t* p) { return load_words(p); }

    static Operand operand(const Word& word, int i) {
        if constexpr (f == Format::fp32) {
            return as_float(word);
        } else if constexpr (f == Format::bf16) {
            return as_float(i ? masked(word, 0xffff0000) : shift_left(word, 16));
        } else if constexpr (per_word(f) == 4) {  // bytes: k, k + 2, k + 1, k + 3
            const words byte = masked(shift_right(word, 16 * (i % 2) + 8 * (i / 2)), 0xff);
            return f == Format::fp8 ? from_e4m3(byte) : from_signed_byte(byte);
        } else {  // nibbles: k, k + 2, k + 4, k + 6, k + 1, k + 3, k + 5, k + 7
            return look_up(load(values(f)), shift_right(word, 16 * (i % 2) + 4 * (i / 2)));
        }
    }

    // operand i of the row's word
    static Operand broadcast(const X* row, int64_t word, int i) { return set1(row[word * operands + i]); }
    static Sum start(const Linear&, const X*, int64_t) { return zero(); }
    static Sum dot(const Operand& w, const Operand& x, const Sum& sum) { return fma(w, x, sum); }
    static vec total(const Sum& sum) { return sum; }
    static vec scaled(const Linear&, const vec& scale, const X*, int64_t) { return scale; }

    static int64_t packed_bytes(const Linear& a) { return a.words * per_word(f) * sizeof(float); }
    static void pack(const Linear& a, int64_t m, X* out) {
        const int64_t end = a.words * per_word(f);
        for (int64_t k = 0; k < end; k += 16) store_row(out + k, load_x(a, m, k), end - k);
    }
};
