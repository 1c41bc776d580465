// nvfp4_a8: the codes of nvfp4, and x rounded to int8 with a scale for each span of 16. The sum over a span is
// exact in whatever it is added up, so that every instruction set gives the same bits.

constexpr int64_t a8_span = 16;

// Rounds one span of x, given as f32 with zeros beyond its end; returns its scale: NaN where x is not finite.
inline float round_to_int8(vec x, vec& rounded) {
    float part[16], largest = 0;
    store(part, x);
    for (float value : part) largest = __builtin_fabsf(value) > largest ? __builtin_fabsf(value) : largest;
    const float scale = largest / 127 > 1e-30f ? largest / 127 : 1e-30f, poison = sum(mul(x, zero()));
    rounded = poison == 0 ? round(div(x, set1(scale))) : zero();
    return scale + poison;
}

struct WeightsA8 : Weights<Format::nvfp4> {
    static constexpr Format format = Format::nvfp4_a8;

    static vec scaled(const Linear& a, const vec& scale, const X* row, int64_t span) {
        return mul(scale, set1(row[a.words * operands + span]));
    }

    // K rounded elements, then the scales of their spans
    static int64_t packed_bytes(const Linear& a) { return (a.words * operands + a.spans) * sizeof(X); }
    static void pack(const Linear& a, int64_t m, X* out) {
        for (int64_t span = 0; span < a.spans; span++) {
            vec rounded;
            const float scale = round_to_int8(load_x(a, m, span * a8_span), rounded);
            store(out + span * a8_span, rounded);
            out[a.words * operands + span] = scale;
        }
    }
};
