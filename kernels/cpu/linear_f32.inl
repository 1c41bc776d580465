// The linear kernels with f32 products: every format, every type of x, every shape.

inline bool regular(const Linear& a) {
    return a.format == Format::int4 ? one_scale(a, 32) : a.format == Format::nf4 ? a.K % 64 == 0 : true;
}

// Any shape: a chunk's weights are written out as f32 rows, each by its definition, and read as fp32.
void linear_irregular(const Linear& a, int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    using W = Row<Format::fp32>;
    const int64_t stride = round_up(a.K, W::block);
    float* rows = (float*)scratch.of(linear_chunk * stride * sizeof(float));
    for (int64_t n0 = begin * linear_chunk; n0 < end * linear_chunk && n0 < a.N; n0 += linear_chunk) {
        Chunk<W> c;
        c.n0 = n0, c.features = a.N - n0 < linear_chunk ? a.N - n0 : linear_chunk;
        c.blocks = stride / W::block, c.ragged = false;
        for (int64_t r = 0; r < linear_chunk; r++) {
            const int64_t n = n0 + (r < c.features ? r : c.features - 1);
            for (int64_t k = 0; k < stride; k++) rows[r * stride + k] = k < a.K ? weight_at(a, n, k) : 0;
            c.whole[r] = {(const uint8_t*)(rows + r * stride), nullptr, 0};
            c.row_scale[r] = 1.0f;
        }
        tiles<W, max_tile>(a, c, 0);
    }
}

template <Format f>
Plan plan_as(const Linear& a, decltype(Plan::run) run = linear_as<Row<f>, f>) {
    return a.x_type == Type::f32 ? plan_as<Row<f>, f, float>(a, run) : plan_as<Row<f>, f, uint16_t>(a, run);
}

Plan plan(const Linear& a) {
    if (!regular(a)) return plan_as<Format::fp32>(a, linear_irregular);
    switch (a.format) {
        case Format::fp32: return plan_as<Format::fp32>(a);
        case Format::bf16: return plan_as<Format::bf16>(a);
        case Format::fp8: return plan_as<Format::fp8>(a);
        case Format::int8: return plan_as<Format::int8>(a);
        case Format::int4: return plan_as<Format::int4>(a);
        case Format::nvfp4: return plan_as<Format::nvfp4>(a);
        case Format::mxfp4: return plan_as<Format::mxfp4>(a);
        default: return plan_as<Format::nf4>(a);
    }
}

int64_t packed_stride(const Linear& a) { return plan(a).packed_stride; }
void pack_x(const Linear& a, void* packed_x) { plan(a).pack(a, packed_x); }
void linear(const Linear& a, int64_t begin, int64_t end) { plan(a).run(a, begin, end); }
