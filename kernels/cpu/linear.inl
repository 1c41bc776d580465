// The skinny linear. The 16 lanes of a register are 16 output features, a tile of W; an element of x is
// broadcast to all of them, so that a sum needs no reduction at its end, and a scale serves 16 weights of K and
// more. Each weight is decoded once for up to 8 rows of x. An output element is the sum over its own spans of
// their own sums, both in ascending order of k, whatever M, the rows beside it or the thread is.

// The last step for the features from n on, in row m.
inline void finish(const Linear& a, vec y, int64_t m, int64_t n) {
    const int64_t at = m * a.N + n, rest = a.N - n;
    if (a.row_scales) y = mul(y, load(a.row_scales + n));
    if (a.bias) y = add(y, load_row(a.bias + n, rest));
    if (a.residual && a.x_type == Type::f32) y = add(y, load_row((const float*)a.residual + at, rest));
    if (a.residual && a.x_type == Type::bf16) y = add(y, load_row((const uint16_t*)a.residual + at, rest));
    a.y_type == Type::f32 ? store_row((float*)a.y + at, y, rest) : store_row((uint16_t*)a.y + at, y, rest);
}

// y[m, n] of R tiles from `tile` on, T rows from m0 on
template <class W, int R, int T>
void tiles(const Linear& a, int64_t tile, int64_t m0) {
    constexpr Format f = W::format;
    constexpr int64_t span_scales = lanes * scale_bytes(f), ahead = 2048;
    const int64_t tile_codes = a.words * lanes * 4, tile_scales = a.spans * span_scales;
    const uint8_t* codes = (const uint8_t*)a.codes + tile * tile_codes;
    const uint8_t* scales = (const uint8_t*)a.scales + tile * tile_scales;
    const typename W::X* x[T];
    vec acc[R][T];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
        x[t] = (const typename W::X*)((const char*)a.packed_x + (m0 + t) * a.packed_stride);
#pragma GCC unroll 2
        for (int r = 0; r < R; r++) acc[r][t] = zero();
    }
    const int64_t span_words = fixed_span(f) ? fixed_span(f) : a.span_words;
    for (int64_t span = 0; span < a.spans; span++) {
        typename W::Sum sum[R][T];
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
#pragma GCC unroll 2
            for (int r = 0; r < R; r++) sum[r][t] = W::start(a, x[t], span);
#pragma GCC unroll 2
        for (int64_t word = span * span_words; word < (span + 1) * span_words; word++) {
            typename W::Word words[R];
#pragma GCC unroll 2
            for (int r = 0; r < R; r++) {
                const uint8_t* p = codes + r * tile_codes + word * lanes * 4;
                __builtin_prefetch(p + ahead);
                words[r] = W::load_word(p);
            }
#pragma GCC unroll 8
            for (int i = 0; i < W::operands; i++) {
                typename W::Operand w[R];
#pragma GCC unroll 2
                for (int r = 0; r < R; r++) w[r] = W::operand(words[r], i);
#pragma GCC unroll 8
                for (int t = 0; t < T; t++) {
                    const typename W::Operand element = W::broadcast(x[t], word, i);
#pragma GCC unroll 2
                    for (int r = 0; r < R; r++) sum[r][t] = W::dot(w[r], element, sum[r][t]);
                }
            }
        }
#pragma GCC unroll 2
        for (int r = 0; r < R; r++) {
            vec scale;
            if constexpr (span_scales != 0) {
                const uint8_t* p = scales + r * tile_scales + span * span_scales;
                __builtin_prefetch(p + ahead / 8);
                scale = scale_of<f>(p);
            }
#pragma GCC unroll 8
            for (int t = 0; t < T; t++) {
                const vec total = W::total(sum[r][t]);
                if constexpr (span_scales == 0) acc[r][t] = total;
                else acc[r][t] = fma(total, W::scaled(a, scale, x[t], span), acc[r][t]);
            }
        }
    }
    for (int t = 0; t < T; t++)
        for (int r = 0; r < R; r++) finish(a, acc[r][t], m0 + t, (tile + r) * lanes);
}

template <class W, int R, int T>
void tiles_of(const Linear& a, int64_t tile, int64_t m0, int64_t rows) {
    if (rows == T) return tiles<W, R, T>(a, tile, m0);
    if constexpr (T > 1) tiles_of<W, R, T - 1>(a, tile, m0, rows);
}

// All M rows in passes of about equal height, at most what the registers hold.
template <class W, int R>
void all_rows(const Linear& a, int64_t tile) {
    constexpr int height = scale_bytes(W::format) ? max_rows_scaled : max_rows;
    for (int64_t m0 = 0, passes = (a.M + height - 1) / height; passes; passes--) {
        const int64_t rows = (a.M - m0 + passes - 1) / passes;
        tiles_of<W, R, height>(a, tile, m0, rows);
        m0 += rows;
    }
}

template <class W>
void linear_as(const Linear& a, int64_t begin, int64_t end) {
    const int64_t count = (a.N + lanes - 1) / lanes, last = end * linear_chunk < count ? end * linear_chunk : count;
    int64_t tile = begin * linear_chunk;
    for (; tile + max_tiles <= last; tile += max_tiles) all_rows<W, max_tiles>(a, tile);
    for (; tile < last; tile++) all_rows<W, 1>(a, tile);
}

template <class W>
void pack_as(const Linear& a, void* packed) {
    for (int64_t m = 0; m < a.M; m++) W::pack(a, m, (typename W::X*)((char*)packed + m * a.packed_stride));
}

// How a call runs; `run` is null where it cannot.
struct Plan {
    void (*run)(const Linear&, int64_t begin, int64_t end);
    void (*pack)(const Linear&, void* packed_x);
    int64_t packed_stride;
};

template <class W>
Plan plan_as(const Linear& a) {
    return {linear_as<W>, pack_as<W>, round_up(W::packed_bytes(a), 64)};
}
