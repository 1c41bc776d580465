// The skinny linear: a chunk of output features at a time, a tile of up to 8 rows of x at a time, each weight
// decoded once for all of these rows. An output element is one accumulator of 16 lanes along K in ascending
// order and one reduction tree, whatever M, the tile or the thread is; several features at once keep the
// multipliers busy.

inline float read(const void* p, Type type, int64_t i) {
    return type == Type::f32 ? ((const float*)p)[i] : widen(((const uint16_t*)p)[i]);
}

// The last step of one output element.
void finish(const Linear& a, float sum, int64_t m, int64_t n) {
    const int64_t at = m * a.N + n;
    if (a.bias) sum += a.bias[n];
    if (a.residual) sum += read(a.residual, a.x_type, at);
    a.y_type == Type::f32 ? narrow(sum, (float*)a.y + at) : narrow(sum, (uint16_t*)a.y + at);
}

inline int log2_of(int64_t power) { return power > 0 ? __builtin_ctzll(power) : 0; }

// Whether every block of this many weights has one int4 scale, found by a shift.
inline bool one_scale(const Linear& a, int64_t block) {
    return a.group >= block && (a.group & (a.group - 1)) == 0;
}

// A chunk of output features: their whole blocks, and their last, incomplete one if there is one.
template <class W>
struct Chunk {
    W whole[linear_chunk], tail[linear_chunk];
    float row_scale[linear_chunk];
    int64_t n0, features, blocks;
    bool ragged;
};

// y[m, n] for all features of a chunk, R at a time, and T rows of x from m0 on
template <class W, int R, int T>
void tile(const Linear& a, const Chunk<W>& c, int64_t m0) {
    const int64_t ahead = R * (c.whole[1].codes - c.whole[0].codes);  // the same place in the next R features
    for (int64_t r0 = 0; r0 < c.features; r0 += R) {
        const auto* x = (const typename W::X*)((const char*)a.packed_x + m0 * a.packed_stride);
        vec acc[R][T];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 8
            for (int t = 0; t < T; t++) acc[r][t] = zero();
        const W* rows = c.whole + r0;
        int64_t blocks = c.blocks;
        for (bool last = !c.ragged;; last = true) {
            for (int64_t b = 0; b < blocks; b++, x += T * W::block)
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    __builtin_prefetch(rows[r].codes + b * W::bytes + ahead, 0, 2);
                    const auto w = rows[r].decode(b);
#pragma GCC unroll 8
                    for (int t = 0; t < T; t++) madd(acc[r][t], w, x + t * W::block);
                }
            if (last) break;
            rows = c.tail + r0, blocks = 1;
        }
        float sums[R][T];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 8
            for (int t = 0; t < T; t++) sums[r][t] = sum(acc[r][t]) * c.row_scale[r0 + r];
        for (int r = 0; r < R && r0 + r < c.features; r++)
            for (int t = 0; t < T; t++) finish(a, sums[r][t], m0 + t, c.n0 + r0 + r);
    }
}

// All M rows for a chunk, tile by tile. How many features a tile takes follows from the registers.
template <class W, int T>
void tiles(const Linear& a, const Chunk<W>& c, int64_t m0) {
    if (a.M - m0 < T) {
        if constexpr (T > 1) tiles<W, T - 1>(a, c, m0);
        return;
    }
    constexpr int R = accumulators >= 4 * T ? 4 : accumulators >= 2 * T ? 2 : 1;
    for (; a.M - m0 >= T; m0 += T) tile<W, R, T>(a, c, m0);
    if constexpr (T > 1) tiles<W, T - 1>(a, c, m0);
}

template <class W, Format f>
void linear_as(const Linear& a, int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    constexpr int64_t block_bytes = W::bytes, span = prepared_span(f);
    const int64_t row_bytes = a.K * bits(f) / 8, blocks = a.K / W::block, whole_bytes = blocks * block_bytes;
    const int64_t row_scales = span ? round_up(a.K / span, 16) : 0;
    float* prepared = (float*)scratch.of(linear_chunk * row_scales * sizeof(float));

    Chunk<W> c;
    alignas(64) uint8_t padded[linear_chunk][block_bytes];
    c.blocks = blocks, c.ragged = a.K % W::block != 0;
    for (c.n0 = begin * linear_chunk; c.n0 < end * linear_chunk && c.n0 < a.N; c.n0 += linear_chunk) {
        c.features = a.N - c.n0 < linear_chunk ? a.N - c.n0 : linear_chunk;
        // beyond N the last feature stands in; its sums are dropped
        for (int64_t r = 0; r < linear_chunk; r++) {
            const int64_t n = c.n0 + (r < c.features ? r : c.features - 1);
            const void* scales = nullptr;
            float* own = prepared + r * row_scales;
            if constexpr (span != 0) read_scales(a, n, own), scales = own;
            else if constexpr (f == Format::int4) scales = (const uint16_t*)a.scales + n * (a.K / a.group);
            else if constexpr (f == Format::nf4) scales = (const float*)a.scales + n * (a.K / 64);
            c.row_scale[r] = f == Format::fp8 || f == Format::int8 ? ((const float*)a.scales)[n] : 1.0f;
            c.whole[r] = {(const uint8_t*)a.codes + n * row_bytes, scales, log2_of(a.group)};
            if (c.ragged) {
                std::memset(padded[r], 0, block_bytes);
                std::memcpy(padded[r], c.whole[r].codes + whole_bytes, row_bytes - whole_bytes);
                c.tail[r] = {padded[r], span ? own + blocks * W::block / span : nullptr, 0};
            }
        }
        tiles<W, max_tile>(a, c, 0);
    }
}

// x as W reads it: blocks padded with zeros, those of a tile's rows beside each other, [blocks][T][block], so
// that a tile reads one stream.
template <class W, class T>
void pack_rows(const Linear& a, void* packed) {
    using X = typename W::X;
    const int64_t stride = a.packed_stride / sizeof(X), blocks = (a.K + W::block - 1) / W::block;
    for (int64_t m = 0; m < a.M; m++) {
        const int64_t t = m % max_tile, m0 = m - t, rows = a.M - m0 < max_tile ? a.M - m0 : max_tile;
        const T* x = (const T*)a.x + m * a.K;
        X* out = (X*)packed + m0 * stride + t * W::block;
        for (int64_t b = 0; b < blocks; b++, out += rows * W::block) {
            T part[W::block] = {};
            const int64_t rest = a.K - b * W::block;
            const T* from = x + b * W::block;
            if (rest < W::block) from = (const T*)std::memcpy(part, from, rest * sizeof(T));
            W::pack(from, out);
        }
    }
}

// How a call runs; `run` is null where it cannot.
struct Plan {
    void (*run)(const Linear&, int64_t begin, int64_t end);
    void (*pack)(const Linear&, void* packed_x);
    int64_t packed_stride;
};

template <class W, Format f, class T>
Plan plan_as(const Linear& a, decltype(Plan::run) run = linear_as<W, f>) {
    return {run, pack_rows<W, T>, round_up(round_up(a.K, W::block) * sizeof(typename W::X), 64)};
}
