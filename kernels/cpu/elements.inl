// Reading and writing f32 or bf16 in steps of 16, and what is made of that.

// Up to 16 elements; the lanes beyond n are 0.
template <class T>
inline vec load_row(const T* p, int64_t n) {
    if (n <= 0) return zero();
    if (n < 16) {
        T part[16] = {};
        std::memcpy(part, p, n * sizeof(T));
        return load_row(part, 16);
    }
    if constexpr (sizeof(T) == 4) return load(p);
    else return from_bf16(p);
}

// 32 elements in two registers, in the order that costs least; store_32 puts them back.
inline void load_32(const float* p, vec& first, vec& second) { first = load(p), second = load(p + 16); }
inline void load_32(const uint16_t* p, vec& first, vec& second) { load_pairs(p, first, second); }
inline void store_32(float* p, vec first, vec second) { store(p, first), store(p + 16, second); }
inline void store_32(uint16_t* p, vec first, vec second) {
    uint16_t even[16], odd[16];
    store(even, first), store(odd, second);
    for (int i = 0; i < 16; i++) p[2 * i] = even[i], p[2 * i + 1] = odd[i];
}

template <class T>
inline void store_row(T* p, vec a, int64_t n) {
    if (n >= 16) return store(p, a);
    T part[16];
    store(part, a);
    std::memcpy(p, part, n * sizeof(T));
}

// Cephes' expf: e^x = 2^n p(x - n ln 2); 2^n in two factors, so that it may leave f32's range on both sides.
inline vec exp(vec x) {
    x = min(set1(89.0f), max(set1(-104.0f), x));  // this order lets NaN through
    vec n = round(mul(x, set1(1.44269504088896341f)));
    vec r = fma(n, set1(-0.693359375f), x);
    r = fma(n, set1(2.12194440e-4f), r);
    constexpr float coefficients[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                                      5.0000001201e-1f};
    vec p = set1(1.9875691500e-4f);
    for (float c : coefficients) p = fma(p, r, set1(c));
    p = add(fma(p, mul(r, r), r), set1(1.0f));
    vec half = round(mul(n, set1(0.5f)));
    return mul(mul(p, pow2(half)), pow2(sub(n, half)));
}

template <class T>
inline float inverse_rms(const T* x, int64_t n, float eps) {
    vec squares = zero();
    for (int64_t i = 0; i < n; i += 16) {
        vec a = load_row(x + i, n - i);
        squares = fma(a, a, squares);
    }
    return 1.0f / __builtin_sqrtf(sum(squares) / (float)n + eps);
}
