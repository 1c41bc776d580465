// The element-wise and row-wise ops.

template <class T>
void rms_norm_rows(const RmsNorm& a, int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; m++) {
        const T* x = (const T*)a.x + m * a.H;
        const T* residual = a.residual ? (const T*)a.residual + m * a.H : nullptr;
        vec inverse = set1(inverse_rms(x, a.H, a.eps));
        for (int64_t i = 0; i < a.H; i += 16) {
            vec y = mul(mul(load_row(x + i, a.H - i), inverse), load_row(a.weight + i, a.H - i));
            if (residual) y = add(y, load_row(residual + i, a.H - i));
            store_row((T*)a.y + m * a.H + i, y, a.H - i);
        }
    }
}

// act(gate) * up with act(z) = z / (1 + e^-s): s = z for silu, 2 sqrt(2/pi) (z + 0.044715 z^3) for gelu_tanh,
// because (1 + tanh u) / 2 = 1 / (1 + e^-2u).
template <class T>
void gated_span(const Gated& a, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 16) {
        vec z = load_row((const T*)a.gate + i, end - i), s = z;
        if (a.gelu) s = mul(mul(z, set1(1.5957691216057308f)), fma(mul(z, z), set1(0.044715f), set1(1.0f)));
        vec activated = div(z, add(set1(1.0f), exp(sub(zero(), s))));
        store_row((T*)a.y + i, mul(activated, load_row((const T*)a.up + i, end - i)), end - i);
    }
}

void rms_norm(const RmsNorm& a, int64_t begin, int64_t end) {
    a.type == Type::f32 ? rms_norm_rows<float>(a, begin, end) : rms_norm_rows<uint16_t>(a, begin, end);
}

void gated(const Gated& a, int64_t begin, int64_t end) {
    a.type == Type::f32 ? gated_span<float>(a, begin, end) : gated_span<uint16_t>(a, begin, end);
}

uint64_t checksum(const uint64_t* words, int64_t begin, int64_t end) {
    uint64_t total = 0;
    for (int64_t i = begin; i < end; i++) total += words[i];
    return total;
}
