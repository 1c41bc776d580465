// Rotary, cache append and causal attention. A row's result depends on the cache's rows up to its own, summed in
// ascending order, never on M: rows are taken together only where they read the same keys and values.
//
// Keys are cached in blocks of 16 positions and in words of 32 bits, [Hkv][blocks][words][16]: a register holds one
// word, one or two elements, of 16 keys, and a query's 16 scores need no reduction. Values are cached as rows,
// [Hkv][max_len][D].

template <class T>
constexpr int64_t pack = 4 / sizeof(T);  // elements in a word

template <class T>
const float* normed(const T* x, const float* weight, const Attend& a, float* out) {
    vec inverse = weight ? set1(inverse_rms(x, a.D, a.eps)) : set1(1.0f);
    for (int64_t i = 0; i < a.D; i += 16) {
        vec y = load_row(x + i, a.D - i);
        if (weight) y = mul(mul(y, inverse), load_row(weight + i, a.D - i));
        store_row(out + i, y, a.D - i);
    }
    return out;
}

// The pairs (i, i + D/2) of one head, turned by the angles of `position`.
template <class T>
void rotate(const float* x, const Attend& a, int64_t position, T* out) {
    const int64_t half = a.D / 2;
    const float *cos = a.cos + position * half, *sin = a.sin + position * half;
    for (int64_t i = 0; i < half; i += 16) {
        const int64_t n = half - i;
        const vec p = load_row(x + i, n), q = load_row(x + half + i, n);
        const vec c = load_row(cos + i, n), s = load_row(sin + i, n);
        store_row(out + i, sub(mul(p, c), mul(q, s)), n);
        store_row(out + half + i, add(mul(q, c), mul(p, s)), n);
    }
}

template <class T>
void append_as(const Attend& a) {
    static thread_local Scratch scratch;
    float* head = (float*)scratch.of(a.D * 2 * sizeof(float));
    T* key = (T*)(head + a.D);
    for (int64_t m = 0; m < a.M; m++) {
        const int64_t position = a.position + m;
        const T* q = (const T*)a.qkv + m * a.width;
        for (int64_t h = 0; h < a.H; h++) {
            float* rotated = a.rotated_q + (m * a.H + h) * a.D;
            rotate(normed(q + h * a.D, a.q_norm, a, head), a, position, rotated);
        }
        const T *k = q + a.H * a.D, *v = k + a.Hkv * a.D;
        for (int64_t h = 0; h < a.Hkv; h++) {
            rotate(normed(k + h * a.D, a.k_norm, a, head), a, position, key);
            T* block = (T*)a.k_cache + (h * a.blocks + position / 16) * a.D * 16;
            for (int64_t i = 0; i < a.D; i += pack<T>)
                std::memcpy(block + i * 16 + position % 16 * pack<T>, key + i, 4);
            std::memcpy((T*)a.v_cache + (h * a.max_len + position) * a.D, v + h * a.D, a.D * sizeof(T));
        }
    }
}

// R rows of one head, from row m0 on.
template <class T, int R>
struct Rows {
    const Attend& a;
    int64_t h, m0;
    float* scores;          // [R][stride], from position `origin` on
    int64_t origin, stride;
    int64_t start[R], end[R];  // the keys in sight of each row

    Rows(const Attend& a, int64_t h, int64_t m0, float* scores) : a(a), h(h), m0(m0), scores(scores) {
        for (int r = 0; r < R; r++) {
            end[r] = a.position + m0 + r + 1;
            start[r] = a.window && end[r] > a.window ? end[r] - a.window : 0;
        }
        origin = start[0] / 16 * 16, stride = round_up(end[R - 1], 16) - origin;
    }

    int64_t kv_head() const { return h / (a.H / a.Hkv); }

    // Scores of 16 keys at a time, in four partial sums over D to have four chains, and each row's highest.
    void score(float* highest) const {
        const float* q[R];
        vec top[R];
        for (int r = 0; r < R; r++) {
            q[r] = a.rotated_q + ((m0 + r) * a.H + h) * a.D, top[r] = set1(-__builtin_inff());
        }
        const T* keys = (const T*)a.k_cache + (kv_head() * a.blocks + origin / 16) * a.D * 16;
        for (int64_t at = 0; at < stride; at += 16, keys += a.D * 16) {
            vec part[R][4];
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
                for (vec& p : part[r]) p = zero();
            for (int64_t i = 0; i < a.D; i += 4)
#pragma GCC unroll 2
                for (int j = 0; j < 4; j += 2) {
                    if (i + j == a.D) break;  // D is even
                    vec even, odd;
                    load_32(keys + (i + j) * 16, even, odd);  // two words of f32, or one of bf16
#pragma GCC unroll 8
                    for (int r = 0; r < R; r++) {
                        part[r][j] = fma(set1(q[r][i + j]), even, part[r][j]);
                        part[r][j + 1] = fma(set1(q[r][i + j + 1]), odd, part[r][j + 1]);
                    }
                }
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) {
                const int64_t l = origin + at;
                float* out = scores + r * stride + at;
                store(out, mul(add(add(part[r][0], part[r][1]), add(part[r][2], part[r][3])), set1(a.scale)));
                if (l < start[r] || l + 16 > end[r])
                    for (int j = 0; j < 16; j++)
                        if (l + j < start[r] || l + j >= end[r]) out[j] = -__builtin_inff();
                top[r] = max(top[r], load(out));
            }
        }
        for (int r = 0; r < R; r++) highest[r] = largest(top[r]);
    }

    // Scores to weights e^(score - highest); returns their sum.
    float weigh(int r, float highest) const {
        vec total = zero();
        for (float* p = scores + r * stride; p < scores + (r + 1) * stride; p += 16) {
            const vec weight = exp(sub(load(p), set1(highest)));
            store(p, weight);
            total = add(total, weight);
        }
        return sum(total);
    }

    // `count` elements of a value in J registers: 32 in two, 64 in four, or what is left in one.
    template <int J>
    static void load_value(const T* p, int64_t count, vec* value) {
        if constexpr (J == 1) value[0] = load_row(p, count);
        else
            for (int j = 0; j < J; j += 2) load_32(p + 16 * j, value[j], value[j + 1]);
    }

    // The values' columns from i on, 16 * J of them, mixed: first the keys that only the earlier rows see, then
    // those that all do, then those that only the later ones see.
    template <int J>
    void mix(int64_t i, const float* whole) const {
        const T* values = (const T*)a.v_cache + kv_head() * a.max_len * a.D + i;
        const int64_t n = a.D - i, common = start[R - 1], last = end[0] > common ? end[0] : common;
        vec acc[R][J];
        auto add_key = [&](int r, int64_t l, const vec* value) __attribute__((always_inline)) {
            const vec weight = set1(scores[r * stride + l - origin]);
#pragma GCC unroll 4
            for (int j = 0; j < J; j++) acc[r][j] = fma(weight, value[j], acc[r][j]);
        };
        vec value[J];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            for (vec& sum : acc[r]) sum = zero();
            for (int64_t l = start[r]; l < common && l < end[r]; l++) {
                load_value<J>(values + l * a.D, n, value);
                add_key(r, l, value);
            }
        }
        for (int64_t l = common; l < last; l++) {
            load_value<J>(values + l * a.D, n, value);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) add_key(r, l, value);
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            for (int64_t l = last; l < end[r]; l++) {
                load_value<J>(values + l * a.D, n, value);
                add_key(r, l, value);
            }
            T* y = (T*)a.y + ((m0 + r) * a.H + h) * a.D + i;
            for (vec& sum : acc[r]) sum = div(sum, set1(whole[r]));
            if constexpr (J == 1) store_row(y, acc[r][0], n);
            else
                for (int j = 0; j < J; j += 2) store_32(y + 16 * j, acc[r][j], acc[r][j + 1]);
        }
    }

    void attend() const {
        float whole[R];
        score(whole);
        for (int r = 0; r < R; r++) whole[r] = weigh(r, whole[r]);
        int64_t i = 0;
        for (; i + 64 <= a.D; i += 64) mix<4>(i, whole);
        for (; i + 32 <= a.D; i += 32) mix<2>(i, whole);
        for (; i < a.D; i += 16) mix<1>(i, whole);
    }
};

template <class T, int R>
void attend_rows(const Attend& a, int64_t h, int64_t m0, int64_t rows, float* scores) {
    if (rows == R) Rows<T, R>(a, h, m0, scores).attend();
    else if constexpr (R > 1) attend_rows<T, R - 1>(a, h, m0, rows, scores);
}

void append(const Attend& a) { a.type == Type::f32 ? append_as<float>(a) : append_as<uint16_t>(a); }

void attend(const Attend& a, int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    constexpr int R = max_rows_scaled;
    float* scores = (float*)scratch.of(R * round_up(a.position + a.M, 16) * sizeof(float));
    const auto rows = a.type == Type::f32 ? attend_rows<float, R> : attend_rows<uint16_t, R>;
    const int64_t passes = (a.M + R - 1) / R;
    for (int64_t i = begin; i < end; i++) {
        const int64_t m0 = i / a.H * a.M / passes;
        rows(a, i % a.H, m0, (i / a.H + 1) * a.M / passes - m0, scores);
    }
}
