// The skinny linear. The 16 lanes of a register are 16 output features, half a tile of W; an element of x is
// broadcast to all of them, so that a sum needs no reduction at its end, and a scale serves 16 weights of K and
// more. Each weight is decoded once for up to 8 rows of x. An output element is the sum over its own spans of
// their own sums, both in ascending order of k, whatever M, the rows beside it or the thread is.

// The last step for the features from n on, in row m.
inline void finish(const Linear& a, vec y, int64_t m, int64_t n) {
    const int64_t at = m * a.N + n, rest = a.N - n;
    if (rest <= 0) return;
    if (a.row_scales) y = mul(y, load(a.row_scales + n));
    if (a.bias) y = add(y, load_row(a.bias + n, rest));
    if (a.residual && a.x_type == Type::f32) y = add(y, load_row((const float*)a.residual + at, rest));
    if (a.residual && a.x_type == Type::bf16) y = add(y, load_row((const uint16_t*)a.residual + at, rest));
    a.y_type == Type::f32 ? store_row((float*)a.y + at, y, rest) : store_row((uint16_t*)a.y + at, y, rest);
}

// y[m, n] of R registers of features from n0 on, T rows from m0 on
template <class W, int R, int T>
void block(const Linear& a, int64_t n0, int64_t m0) {
    constexpr Format f = W::format;
    constexpr int64_t ahead = 4096, span_scales = tile_width * scale_bytes(f);
    const int64_t tile = n0 / tile_width, lane = n0 % tile_width;
    const uint8_t* codes = (const uint8_t*)a.codes + (tile * a.words * tile_width + lane) * 4;
    const uint8_t* scales = (const uint8_t*)a.scales + tile * a.spans * span_scales + lane * scale_bytes(f);
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
                const uint8_t* p = codes + (word * tile_width + r * lanes) * 4;
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
                const uint8_t* p = scales + span * span_scales + r * lanes * scale_bytes(f);
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
        for (int r = 0; r < R; r++) finish(a, acc[r][t], m0 + t, n0 + r * lanes);
}

template <class W, int T>
void block_of(const Linear& a, int64_t n0, int64_t m0, int64_t rows) {
    if (rows == T) return block<W, registers, T>(a, n0, m0);
    if constexpr (T > 1) block_of<W, T - 1>(a, n0, m0, rows);
}

// Tiles, each with all M rows in passes of about equal height, at most what the registers hold.
template <class W>
void linear_as(const Linear& a, int64_t begin, int64_t end) {
    constexpr int height = scale_bytes(W::format) ? max_rows_scaled : max_rows;
    const int64_t passes = (a.M + height - 1) / height;
    for (int64_t n0 = begin * tile_width; n0 < end * tile_width && n0 < a.N; n0 += registers * lanes)
        for (int64_t pass = 0; pass < passes; pass++) {
            const int64_t m0 = pass * a.M / passes;
            block_of<W, height>(a, n0, m0, (pass + 1) * a.M / passes - m0);
        }
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
