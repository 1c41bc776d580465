// The linear kernels with f32 products: every format, both types of x.

Plan plan(const Linear& a) {
    switch (a.format) {
        case Format::fp32: return plan_as<Weights<Format::fp32>>(a);
        case Format::bf16: return plan_as<Weights<Format::bf16>>(a);
        case Format::fp8: return plan_as<Weights<Format::fp8>>(a);
        case Format::int8: return plan_as<Weights<Format::int8>>(a);
        case Format::int4: return plan_as<Weights<Format::int4>>(a);
        case Format::nvfp4: return plan_as<Weights<Format::nvfp4>>(a);
        case Format::mxfp4: return plan_as<Weights<Format::mxfp4>>(a);
        case Format::nvfp4_a8: return plan_as<WeightsA8>(a);
        default: return plan_as<Weights<Format::nf4>>(a);
    }
}

int64_t packed_stride(const Linear& a) { return plan(a).packed_stride; }
void pack_x(const Linear& a, void* packed_x) { plan(a).pack(a, packed_x); }
void linear(const Linear& a, int64_t begin, int64_t end) { plan(a).run(a, begin, end); }
