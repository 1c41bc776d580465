// How each packed format is read: a `Row` is one output feature's weights, `decode(b)` gives the b-th block
// of them in registers, and `madd` multiplies a block with the activations that `pack` laid out to match it.
//
// Here in f32: 32 weights a block, each exactly what its format's definition says, scale included: v * (s *
// g).

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

constexpr int bits(Format f) {
    return f == Format::fp32 ? 32 : f == Format::bf16 ? 16 : f == Format::fp8 || f == Format::int8 ? 8 : 4;
}

constexpr bool nibbles(Format f) { return bits(f) == 4; }

inline int64_t round_up(int64_t a, int64_t to) { return (a + to - 1) / to * to; }

// Weights under one of the scales that read_scales prepares; 0: the format's scales are read as stored.
constexpr int64_t prepared_span(Format f) { return f == Format::nvfp4 ? 16 : f == Format::mxfp4 ? 32 : 0; }

// The scales of output feature n as f32, zero beyond K up to a whole 4 of them: s * g for nvfp4, 2^(e - 127)
// for mxfp4.
inline void read_scales(const Linear& a, int64_t n, float* out) {
    const int64_t count = a.K / prepared_span(a.format);
    const float global = a.global_scale ? a.global_scale[n * a.global_stride] : 1.0f;
    const uint8_t* scales = (const uint8_t*)a.scales + n * count;
    const uint8_t* end = (const uint8_t*)a.scales + a.N * count;
    for (int64_t i = 0; i < count; i += 16) {  // 16 at a time, the next feature's too: those are overwritten
        uint8_t part[16] = {};
        const uint8_t* p = scales + i;
        if (end - p < 16) p = (const uint8_t*)std::memcpy(part, p, end - p);
        store(out + i, a.format == Format::nvfp4 ? mul(from_fp8(p), set1(global)) : from_e8m0(p));
    }
    for (int64_t i = count; i < round_up(count, 4); i++) out[i] = 0;
}

// One weight by its definition: for int4 and nf4 shapes in which a block of 32 may have more than one scale.
inline float weight_at(const Linear& a, int64_t n, int64_t k) {
    const int64_t flat = n * a.K + k;
    const uint8_t byte = ((const uint8_t*)a.codes)[flat / 2];
    const bool high = (flat % 2 == 1) != (a.format == Format::nf4);
    const float scale = a.format == Format::nf4 ? ((const float*)a.scales)[flat / 64]
                                                : widen(((const uint16_t*)a.scales)[flat / a.group]);
    return values(a.format)[high ? byte >> 4 : byte & 15] * scale;
}

struct Pair {
    vec first, second;
};

inline void madd(vec& acc, const Pair& w, const float* x) {
    acc = fma(w.first, load(x), acc);
    acc = fma(w.second, load(x + 16), acc);
}

struct Source {
    const uint8_t* codes;
    const void* scales;  // int4, nf4: as stored; nvfp4, mxfp4: as read_scales made them
    int shift;           // int4: log2 of the group
};

template <Format f>
struct Row : Source {
    static constexpr int block = 32;
    static constexpr int bytes = block * bits(f) / 8;
    static constexpr bool paired = f == Format::bf16 || nibbles(f);  // x as even and odd elements
    using X = float;

    static void pack(const float* x, float* out) {
        for (int i = 0; i < 32; i++) out[paired ? i / 2 + i % 2 * 16 : i] = x[i];
    }

    static void pack(const uint16_t* x, float* out) {
        vec first = from_bf16(x), second = from_bf16(x + 16);
        if constexpr (paired) from_bf16_pairs(x, first, second);
        store(out, first), store(out + 16, second);
    }

    Pair decode(int64_t b) const {
        const uint8_t* p = codes + b * bytes;
        if constexpr (f == Format::fp32) {
            return {load((const float*)p), load((const float*)p + 16)};
        } else if constexpr (f == Format::bf16) {
            Pair w;
            from_bf16_pairs((const uint16_t*)p, w.first, w.second);
            return w;
        } else if constexpr (f == Format::fp8) {
            return {from_fp8(p), from_fp8(p + 16)};
        } else if constexpr (f == Format::int8) {
            return {from_int8((const int8_t*)p), from_int8((const int8_t*)p + 16)};
        } else {
            vec low, high;
            if constexpr (f == Format::nvfp4) {
                from_nibbles(p, load(e2m1), low, high);
                const vec two = halves((const float*)scales + 2 * b);
                return {mul(low, two), mul(high, two)};
            } else {
                from_nibbles(p, mul(load(values(f)), set1(scale(b))), low, high);
                return f == Format::nf4 ? Pair{high, low} : Pair{low, high};
            }
        }
    }

    float scale(int64_t b) const {
        if constexpr (f == Format::int4) return widen(((const uint16_t*)scales)[b * block >> shift]);
        else if constexpr (f == Format::nf4) return ((const float*)scales)[b / 2];
        else return ((const float*)scales)[b];
    }
};
