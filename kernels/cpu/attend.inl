// Rotary, cache append and causal attention. A row's result depends on the cache's rows up to its own, summed
// in ascending order: never on M.

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
    float* head = (float*)scratch.of(a.D * sizeof(float));
    for (int64_t m = 0; m < a.M; m++) {
        const int64_t position = a.position + m;
        const T* q = (const T*)a.qkv + m * a.width;
        for (int64_t h = 0; h < a.H; h++) {
            float* rotated = a.rotated_q + (m * a.H + h) * a.D;
            rotate(normed(q + h * a.D, a.q_norm, a, head), a, position, rotated);
        }
        const T *k = q + a.H * a.D, *v = k + a.Hkv * a.D;
        for (int64_t h = 0; h < a.Hkv; h++) {
            const int64_t to = (h * a.max_len + position) * a.D;
            rotate(normed(k + h * a.D, a.k_norm, a, head), a, position, (T*)a.k_cache + to);
            std::memcpy((T*)a.v_cache + to, v + h * a.D, a.D * sizeof(T));
        }
    }
}

// One row's head: scores of all keys, then their softmax, then the mix of the values, 16 elements at a time.
template <class T>
void attend_head(const Attend& a, int64_t m, int64_t h, float* scores) {
    const int64_t end = a.position + m + 1, start = a.window && end > a.window ? end - a.window : 0;
    const int64_t L = end - start;  // keys in sight
    const int64_t kv = h / (a.H / a.Hkv), at = (m * a.H + h) * a.D;
    const T* keys = (const T*)a.k_cache + (kv * a.max_len + start) * a.D;
    const T* values = (const T*)a.v_cache + (kv * a.max_len + start) * a.D;
    const float* q = a.rotated_q + at;

    float highest = -__builtin_inff();
    for (int64_t l = 0; l < L; l++) {
        vec dot = zero();
        for (int64_t i = 0; i < a.D; i += 16)
            dot = fma(load_row(q + i, a.D - i), load_row(keys + l * a.D + i, a.D - i), dot);
        scores[l] = sum(dot) * a.scale;
        highest = scores[l] > highest ? scores[l] : highest;
    }
    for (int64_t l = L; l < round_up(L, 16); l++) scores[l] = -__builtin_inff();
    vec total = zero();
    for (int64_t l = 0; l < L; l += 16) {
        vec weight = exp(sub(load(scores + l), set1(highest)));
        store(scores + l, weight);
        total = add(total, weight);
    }
    const float whole = sum(total);
    for (int64_t i = 0; i < a.D; i += 64) {  // four accumulators, to have four chains
        const int64_t n = a.D - i;
        vec mix[4] = {zero(), zero(), zero(), zero()};
        for (int64_t l = 0; l < L; l++) {
            const vec weight = set1(scores[l]);
            for (int j = 0; j < 4; j++)
                if (n > 16 * j)
                    mix[j] = fma(weight, load_row(values + l * a.D + i + 16 * j, n - 16 * j), mix[j]);
        }
        for (int j = 0; j < 4; j++)
            if (n > 16 * j) store_row((T*)a.y + at + i + 16 * j, div(mix[j], set1(whole)), n - 16 * j);
    }
}

void append(const Attend& a) { a.type == Type::f32 ? append_as<float>(a) : append_as<uint16_t>(a); }

void attend(const Attend& a, int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    float* scores = (float*)scratch.of(round_up(a.position + a.M, 16) * sizeof(float));
    const auto head = a.type == Type::f32 ? attend_head<float> : attend_head<uint16_t>;
    for (int64_t i = begin; i < end; i++) head(a, i / a.H, i % a.H, scores);
}
