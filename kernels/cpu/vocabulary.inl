// What is chosen from a row of logits or probabilities, in one pass and a half, without a copy.

// The first index of the largest; NaN is larger than everything.
int64_t argmax(const float* x, int64_t n) {
    vec top = set1(-__builtin_inff()), poison = zero();
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const vec a = load(x + i);
        top = max(a, top), poison = fma(a, zero(), poison);
    }
    float most = largest(top), spoilt = sum(poison);
    for (; i < n; i++) most = x[i] > most ? x[i] : most, spoilt += x[i] * 0;
    if (spoilt != 0)  // NaN: there is one in x, or an infinity
        for (i = 0; i < n; i++)
            if (x[i] != x[i]) return i;
    for (i = 0; i + 1 < n && x[i] != most; i++) {}
    return i;
}

// The first index at which the running sum of the weights reaches u of their total, 0 < u <= 1; its weight is
// above 0. -1 where none is.
int64_t pick(const float* weights, int64_t n, double u) {
    constexpr int64_t block = 256;
    auto block_sum = [&](int64_t from) {
        vec part = zero();
        for (int64_t i = from; i < from + block && i < n; i += 16) part = add(part, load_row(weights + i, n - i));
        return (double)sum(part);
    };
    double total = 0, before = 0;
    for (int64_t i = 0; i < n; i += block) total += block_sum(i);
    int64_t last = -1;
    for (int64_t from = 0; from < n; from += block) {
        const double whole = block_sum(from);
        if (before + whole >= u * total) {
            double running = before;
            for (int64_t i = from; i < from + block && i < n; i++) {
                running += weights[i];
                if (weights[i] > 0) last = i;
                if (last == i && running >= u * total) return i;
            }
            if (last >= from) return last;  // the parts add up to a little less than their sum in another order
        }
        before += whole;
    }
    for (int64_t i = n - 1; i > last; i--)
        if (weights[i] > 0) return i;
    return last;
}
