// The ops as torch calls them: checks, memory for results and scratch, and the order of launches. The only file here that
// knows torch, through its stable ABI; it knows nothing of CUDA. It serves whatever device its tensors are on.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kernels.h"

// Where the ops are registered: tests run the same kernels on the CPU, under another name.
#ifndef ACCTAX_LIBRARY
#define ACCTAX_LIBRARY acctax
#define ACCTAX_KEY CUDA
#endif

// Absent from torch's CPU builds, which load this library all the same, and the one name for it in torch 2.11.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device, void** stream);

namespace {

using namespace acctax;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Optional = std::optional<Tensor>;

constexpr int64_t most_counters = 1 << 16;

void check(const Tensor& t, ScalarType type, int64_t numel, const char* what) {
    STD_TORCH_CHECK(t.scalar_type() == type, what, ": has the wrong type");
    STD_TORCH_CHECK(t.numel() == numel, what, ": has ", t.numel(), " elements, needs ", numel);
    STD_TORCH_CHECK(t.is_contiguous(), what, ": must be contiguous");
}

// What kernels read 16 bytes at a time.
void check_wide(const Tensor& t, ScalarType type, int64_t numel, const char* what) {
    check(t, type, numel, what);
    STD_TORCH_CHECK((uintptr_t)t.const_data_ptr() % 16 == 0, what, ": must start at a multiple of 16 bytes");
}

const void* data(const Optional& t) { return t ? t->const_data_ptr() : nullptr; }

const float* floats(const Optional& t, int64_t numel, const char* what) {
    if (t) check(*t, ScalarType::Float, numel, what);
    return (const float*)data(t);
}

// A device, and its current stream.
struct Place {
    int32_t type, index;
    void* stream = nullptr;

    explicit Place(const Tensor& t) {
        TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(t.get(), &type));
        TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(t.get(), &index));
        if (type != aoti_torch_device_type_cuda()) return;
        STD_TORCH_CHECK(aoti_torch_get_current_cuda_stream, "acctax: this torch knows no CUDA stream");
        TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(index, &stream));
    }

    Tensor empty(int32_t dtype, int64_t rows, int64_t columns) const {
        const int64_t sizes[] = {rows, columns}, strides[] = {columns, 1};
        return empty(dtype, 2, sizes, strides);
    }
    Tensor empty(int32_t dtype, int64_t count) const {
        const int64_t stride = 1;
        return empty(dtype, 1, &count, &stride);
    }
    Tensor scratch(int64_t bytes) const { return empty(aoti_torch_dtype_uint8(), bytes); }

    // Zeros that every kernel leaves as zeros, one piece of memory a device: what runs on it runs in one order.
    unsigned* counters(int64_t needed) const {
        static std::mutex lock;
        static std::map<int32_t, Tensor*> held;  // never freed: torch may be gone before this library
        STD_TORCH_CHECK(needed <= most_counters, "acctax: ", needed, " blocks to wait for, at most ", most_counters);
        const std::lock_guard<std::mutex> guard(lock);
        Tensor*& mine = held[index];
        if (!mine) {
            mine = new Tensor(empty(aoti_torch_dtype_int32(), most_counters));
            torch::stable::zero_(*mine);
        }
        return (unsigned*)mine->mutable_data_ptr();
    }

private:
    Tensor empty(int32_t dtype, int64_t dims, const int64_t* sizes, const int64_t* strides) const {
        AtenTensorHandle handle;
        TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(dims, sizes, strides, dtype, type, index, &handle));
        return Tensor(handle);
    }
};

void launched(int error, const char* op) { STD_TORCH_CHECK(error == 0, op, ": the launch failed, CUDA error ", error); }

int small(int64_t value, const char* what) {
    STD_TORCH_CHECK(value >= 0 && value < INT32_MAX, what, ": ", value, " is out of range");
    return (int)value;
}

Format format_of(const std::string& name) {
    constexpr const char* names[] = {"bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4"};
    int i = 0;
    while (i < (int)Format::unknown && name != names[i]) i++;
    STD_TORCH_CHECK(i < (int)Format::unknown, "tiled_linear: no CUDA kernel for the format '", name, "'");
    return (Format)i;
}

// What the panels hold must be what N, K and the group need.
void check_panels(const Linear& a, const Tensor& codes, const Optional& scales) {
    const auto format = (Format)a.format;
    const int64_t panels = (a.N + panel_width - 1) / panel_width, step = step_width(format);
    const int64_t steps = (a.K + step - 1) / step;
    check_wide(codes, ScalarType::Int, panels * steps * panel_width * 8, "tiled_linear: codes");
    int64_t span = 0, bytes = 0;  // of one panel and step
    switch (format) {
        case Format::nvfp4: span = 16, bytes = 4 * panel_width; break;
        case Format::mxfp4: span = 32, bytes = 2 * panel_width; break;
        case Format::nf4: span = 64, bytes = 4 * panel_width; break;
        case Format::int4: span = a.group, bytes = span && span < 64 ? 64 / span * 2 * panel_width : 0; break;
        default: return;
    }
    STD_TORCH_CHECK(span && (span % 64 == 0 || span == 16 || span == 32) && a.K % span == 0,
                    "tiled_linear: K must be whole blocks of ", span, ", not ", a.K);
    STD_TORCH_CHECK(scales, "tiled_linear: scales are missing");
    const int64_t needed = bytes ? steps * bytes : a.K / span * 2 * panel_width;
    check_wide(*scales, ScalarType::Byte, panels * needed, "tiled_linear: scales");
}

Tensor rms_norm(Tensor x, Tensor weight, double eps, Optional residual) {
    STD_TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "rms_norm: x must be a contiguous [M, H]");
    const bool is_float = x.scalar_type() == ScalarType::Float;
    STD_TORCH_CHECK(is_float || x.scalar_type() == ScalarType::BFloat16, "rms_norm: needs float32 or bfloat16");
    const int64_t M = x.size(0), H = x.size(1);
    check(weight, ScalarType::Float, H, "rms_norm: weight");
    if (residual) check(*residual, x.scalar_type(), M * H, "rms_norm: residual");
    const Place place(x);
    Tensor y = place.empty(is_float ? aoti_torch_dtype_float32() : aoti_torch_dtype_bfloat16(), M, H);
    const RmsNorm a{small(M, "rms_norm: M"), small(H, "rms_norm: H"), is_float, (float)eps, x.const_data_ptr(),
                    data(residual), (const float*)weight.const_data_ptr(), y.mutable_data_ptr()};
    if (M) launched(acctax_cuda_rms_norm(&a, place.stream), "rms_norm");
    return y;
}

Tensor tiled_linear(Tensor x, Tensor codes, Optional scales, Optional row_scales, std::string format, int64_t group,
                    int64_t rows, int64_t width, Optional bias, Optional residual, bool float_out, Optional norm, double eps,
                    std::string activation) {
    const bool gate = !activation.empty();
    STD_TORCH_CHECK(x.dim() == 2 && x.is_contiguous() && x.scalar_type() == ScalarType::BFloat16,
                    "tiled_linear: x must be a contiguous bfloat16 [M, K]");
    STD_TORCH_CHECK(!gate || activation == "silu" || activation == "gelu_tanh",
                    "tiled_linear: no activation '", activation, "'; use 'silu' or 'gelu_tanh'");
    STD_TORCH_CHECK(!gate || (!norm && x.size(1) % 2 == 0), "tiled_linear: a gate needs [M, 2K] and no norm");
    const int64_t M = x.size(0), K = x.size(1) / (gate ? 2 : 1);
    STD_TORCH_CHECK(K == width, "tiled_linear: the weight is ", rows, " x ", width, ", x has ", K, " columns");
    STD_TORCH_CHECK(K > 0, "tiled_linear: no weight is ", rows, " x ", K);

    Linear a{};
    a.format = (int)format_of(format), a.float_out = float_out;
    a.N = small(rows, "tiled_linear: N"), a.K = small(K, "tiled_linear: K"), a.group = small(group, "tiled_linear: group");
    check_panels(a, codes, scales);
    const int64_t panels = (a.N + panel_width - 1) / panel_width;
    a.codes = codes.const_data_ptr(), a.scales = data(scales);
    a.row_scales = floats(row_scales, panels * panel_width, "tiled_linear: row_scales");
    a.bias = floats(bias, a.N, "tiled_linear: bias");
    if (residual) {
        check(*residual, ScalarType::BFloat16, M * a.N, "tiled_linear: residual");
        STD_TORCH_CHECK(residual->size(0) == M, "tiled_linear: residual: must be [", M, ", ", a.N, "]");
    }

    check_wide(x, ScalarType::BFloat16, x.numel(), "tiled_linear: x");

    const Place place(x);
    if (norm) x = rms_norm(x, *norm, eps, std::nullopt);
    if (gate) {
        Tensor gated = place.empty(aoti_torch_dtype_bfloat16(), M, K);
        const Gated g{small(M, "tiled_linear: M"), a.K, activation != "silu", x.const_data_ptr(), gated.mutable_data_ptr()};
        if (M) launched(acctax_cuda_gated(&g, place.stream), "tiled_linear: activation");
        x = gated;
    }
    Tensor y = place.empty(float_out ? aoti_torch_dtype_float32() : aoti_torch_dtype_bfloat16(), M, a.N);
    if (!M || !a.N) return y;

    const int64_t step = step_width((Format)a.format), padded = (K + step - 1) / step * step;
    a.splits = acctax_cuda_linear_splits(a.format, a.N, a.K);
    const int64_t partial = a.splits > 1 ? a.splits * panels * panel_width * max_rows * (int64_t)sizeof(float) : 0;
    Tensor scratch = place.scratch(partial + (padded > K ? max_rows * padded * 2 : 0));
    a.partial = (float*)scratch.mutable_data_ptr(), a.padded_x = (char*)scratch.mutable_data_ptr() + partial;
    a.counters = place.counters(panels);
    for (int64_t m = 0; m < M; m += max_rows) {
        a.M = (int)(M - m < max_rows ? M - m : max_rows);
        a.x = (const char*)x.const_data_ptr() + m * K * 2;
        a.residual = residual ? (const char*)residual->const_data_ptr() + m * a.N * 2 : nullptr;
        a.y = (char*)y.mutable_data_ptr() + m * a.N * (float_out ? 4 : 2);
        launched(acctax_cuda_linear(&a, place.stream), "tiled_linear");
    }
    return y;
}

// `moved` stands for a position that only the device knows: `position` is then the largest it may be.
Tensor attend_from(const Tensor& qkv, const Optional& q_norm, const Optional& k_norm, double eps, const Tensor& cos,
                   const Tensor& sin, Tensor& k_cache, Tensor& v_cache, int64_t position, const int* moved, double scale,
                   int64_t window) {
    STD_TORCH_CHECK(qkv.dim() == 2 && k_cache.dim() == 5 && v_cache.dim() == 3 && k_cache.size(4) == 2,
                    "attend: needs [M, (H+2*Hkv)*D] and caches [Hkv, blocks, D/2, 16, 2] and [Hkv, max_len, D]");
    const int64_t M = qkv.size(0), width = qkv.size(1), Hkv = v_cache.size(0), max_len = v_cache.size(1), D = v_cache.size(2);
    STD_TORCH_CHECK(D > 0 && Hkv > 0, "attend: caches of ", Hkv, " key heads of ", D, " hold nothing");
    STD_TORCH_CHECK(D % 8 == 0 && D <= 256, "attend: heads of ", D, " elements; needs a multiple of 8, at most 256");
    const int64_t H = width / D - 2 * Hkv;
    STD_TORCH_CHECK(width % D == 0 && H > 0 && H % Hkv == 0 && window >= 0,
                    "attend: ", width, " columns do not fit ", Hkv, " key heads of ", D);
    STD_TORCH_CHECK(position >= 0 && position <= max_len - M && position <= cos.size(0) - M, "attend: ", M,
                    " rows from ", position, " on do not fit into a cache of ", max_len, " rows");
    check_wide(qkv, ScalarType::BFloat16, M * width, "attend: qkv");
    check_wide(k_cache, ScalarType::BFloat16, Hkv * ((max_len + 15) / 16) * 16 * D, "attend: k_cache");
    check_wide(v_cache, ScalarType::BFloat16, Hkv * max_len * D, "attend: v_cache");
    check(cos, ScalarType::Float, cos.size(0) * D / 2, "attend: cos");
    check(sin, ScalarType::Float, cos.numel(), "attend: sin");

    const Place place(qkv);
    Tensor y = place.empty(aoti_torch_dtype_bfloat16(), M, H * D);
    if (!M) return y;
    Attend a{};
    a.M = small(M, "attend: M"), a.H = (int)H, a.Hkv = (int)Hkv, a.D = (int)D;
    a.max_len = small(max_len, "attend: max_len"), a.window = small(window, "attend: window");
    a.chunks = (int)((position + M + attend_span - 1) / attend_span);
    a.position = moved ? 0 : (int)position, a.moved = moved;
    a.eps = (float)eps, a.scale = (float)scale, a.qkv = qkv.const_data_ptr();
    a.q_norm = floats(q_norm, D, "attend: q_norm"), a.k_norm = floats(k_norm, D, "attend: k_norm");
    a.cos = (const float*)cos.const_data_ptr(), a.sin = (const float*)sin.const_data_ptr();
    a.k_cache = k_cache.mutable_data_ptr(), a.v_cache = v_cache.mutable_data_ptr(), a.y = y.mutable_data_ptr();
    Tensor scratch = place.scratch(acctax_cuda_attend_scratch(&a) * sizeof(float));
    a.partial = (float*)scratch.mutable_data_ptr();
    a.counters = place.counters(Hkv * (M * (H / Hkv) / attend_queries + 1));
    launched(acctax_cuda_attend(&a, place.stream), "attend");
    return y;
}

Tensor attend(Tensor qkv, Optional q_norm, Optional k_norm, double eps, Tensor cos, Tensor sin, Tensor k_cache,
              Tensor v_cache, int64_t position, double scale, int64_t window) {
    return attend_from(qkv, q_norm, k_norm, eps, cos, sin, k_cache, v_cache, position, nullptr, scale, window);
}

Tensor attend_at(Tensor qkv, Optional q_norm, Optional k_norm, double eps, Tensor cos, Tensor sin, Tensor k_cache,
                 Tensor v_cache, Tensor position, double scale, int64_t window) {
    STD_TORCH_CHECK(position.scalar_type() == ScalarType::Int && position.numel() == 1, "attend_at: position: one int32");
    const int64_t largest = v_cache.size(1) - qkv.size(0);
    return attend_from(qkv, q_norm, k_norm, eps, cos, sin, k_cache, v_cache, largest,
                       (const int*)position.const_data_ptr(), scale, window);
}

// Blocks that share a row of the vocabulary.
int slices_of(int64_t vocab) {
    constexpr int64_t elements = 4096;
    const int64_t wanted = (vocab + elements - 1) / elements;
    return (int)(wanted < most_slices ? wanted : most_slices);
}

void check_logits(const Tensor& logits, const char* op) {
    STD_TORCH_CHECK(logits.dim() == 2 && logits.size(1) > 0 && logits.is_contiguous(), op, ": needs a contiguous [M, vocab]");
    check(logits, ScalarType::Float, logits.numel(), op);
}

// What argmax_kernel needs, and memory that must outlive its launch's submission.
struct Best {
    ArgMax a;
    Tensor found, scratch;

    Best(const Tensor& logits, const Place& place)
        : found(place.empty(aoti_torch_dtype_int64(), logits.size(0))),
          scratch(place.scratch(logits.size(0) * slices_of(logits.size(1)) * 8)) {
        a = {small(logits.size(0), "argmax: M"), small(logits.size(1), "argmax: vocab"), slices_of(logits.size(1)),
             (const float*)logits.const_data_ptr(), scratch.mutable_data_ptr(), place.counters(logits.size(0) + 1),
             (int64_t*)found.mutable_data_ptr()};
    }
};

Tensor argmax(Tensor logits) {
    check_logits(logits, "argmax");
    const Place place(logits);
    Best best(logits, place);
    if (best.a.M) launched(acctax_cuda_argmax(&best.a, place.stream), "argmax");
    return best.found;
}

// A law's shape, on its way to the stream, with the memory that it needs.
struct Shaped {
    Law a;
    Tensor scratch;

    Shaped(const Tensor& logits, double temperature, int64_t top_k, double top_p, const Place& place)
        : scratch(place.scratch(logits.size(0) * (16 + slices_of(logits.size(1)) * sizeof(Slice)))) {
        STD_TORCH_CHECK(temperature > 0, "law: a temperature of ", temperature, " has no law");
        STD_TORCH_CHECK(logits.size(1) <= 1 << 20, "law: a vocabulary of ", logits.size(1), "; at most 2^20");
        a = {small(logits.size(0), "law: M"), small(logits.size(1), "law: vocab"), slices_of(logits.size(1)),
             small(top_k, "law: top_k"), (float)temperature, (float)top_p, (const float*)logits.const_data_ptr(),
             (Slice*)((char*)scratch.mutable_data_ptr() + logits.size(0) * 16), place.counters(logits.size(0) + 1),
             scratch.mutable_data_ptr(), nullptr};
        if (a.M) launched(acctax_cuda_law(&a, place.stream), "law");
    }
};

Tensor law(Tensor logits, double temperature, int64_t top_k, double top_p) {
    const bool one = logits.dim() == 1;
    if (one) logits = torch::stable::unsqueeze(logits, 0);
    check_logits(logits, "law");
    const Place place(logits);
    Shaped shaped(logits, temperature, top_k, top_p, place);
    Tensor p = place.empty(aoti_torch_dtype_float32(), logits.size(0), logits.size(1));
    shaped.a.p = (float*)p.mutable_data_ptr();
    if (shaped.a.M) launched(acctax_cuda_law_write(&shaped.a, place.stream), "law");
    return one ? torch::stable::squeeze(p, 0) : p;
}

Tensor verify(Tensor logits, Optional q, Tensor drafts, Tensor u, double temperature, int64_t top_k, double top_p) {
    check_logits(logits, "verify");
    const int64_t K = logits.size(0) - 1, vocab = logits.size(1);
    STD_TORCH_CHECK(K >= 0 && K < 128, "verify: ", K, " drafts; at most 127");
    check(drafts, ScalarType::Long, K, "verify: drafts");
    const Place place(logits);
    Tensor out = place.empty(aoti_torch_dtype_int64(), K + 2);
    auto* committed = (int64_t*)out.mutable_data_ptr();
    const auto* proposed = (const int64_t*)drafts.const_data_ptr();
    if (temperature == 0) {
        Best best(logits, place);
        unsigned* counter = best.a.counters + K + 1;
        launched(acctax_cuda_verify_greedy(&best.a, proposed, committed, counter, place.stream), "verify");
        return out;
    }
    check(u, ScalarType::Double, K + 1, "verify: u");
    const float* laws = floats(q, K * vocab, "verify: q");
    Shaped shaped(logits, temperature, top_k, top_p, place);
    Tensor sums = place.scratch(shaped.a.slices * 2 * sizeof(double));
    const Verify a{shaped.a, laws, proposed, (const double*)u.const_data_ptr(), (double*)sums.mutable_data_ptr(),
                   shaped.a.counters, committed};
    launched(acctax_cuda_verify(&a, place.stream), "verify");
    return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ACCTAX_LIBRARY, ACCTAX_KEY, m) {
    m.impl("tiled_linear", TORCH_BOX(&tiled_linear));
    m.impl("rms_norm", TORCH_BOX(&rms_norm));
    m.impl("attend", TORCH_BOX(&attend));
    m.impl("attend_at", TORCH_BOX(&attend_at));
    m.impl("argmax", TORCH_BOX(&argmax));
    m.impl("law", TORCH_BOX(&law));
    m.impl("verify", TORCH_BOX(&verify));
}
