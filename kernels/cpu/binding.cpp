// The ops as torch calls them: checks, the result's memory, and the split into threads. The only file that
// knows torch, through its stable ABI.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <atomic>
#include <optional>
#include <string>

#include "dispatch.h"

namespace {

using namespace acctax;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Optional = std::optional<Tensor>;

constexpr int64_t thread_work = 1 << 17;  // multiplications or elements that are worth a second thread
constexpr int64_t law_work = 16;          // what an element of a law counts for: an exponential

thread_local Scratch scratch;  // for what a call prepares before it splits

Type type_of(const Tensor& t, const char* op) {
    const ScalarType type = t.scalar_type();
    const bool bf16 = type == ScalarType::BFloat16;
    STD_TORCH_CHECK(bf16 || type == ScalarType::Float, op, ": needs float32 or bfloat16");
    return bf16 ? Type::bf16 : Type::f32;
}

void check(const Tensor& t, ScalarType type, int64_t numel, const char* what) {
    STD_TORCH_CHECK(t.scalar_type() == type, what, ": has the wrong type");
    STD_TORCH_CHECK(t.numel() == numel, what, ": has ", t.numel(), " elements, needs ", numel);
    STD_TORCH_CHECK(t.is_contiguous(), what, ": must be contiguous");
}

const void* data(const Optional& t) { return t ? t->const_data_ptr() : nullptr; }

const float* floats(const Optional& t, int64_t numel, const char* what) {
    if (t) check(*t, ScalarType::Float, numel, what);
    return (const float*)data(t);
}

Tensor empty(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
    AtenTensorHandle handle;
    TORCH_ERROR_CODE_CHECK(
        aoti_torch_empty_strided(dims, sizes, strides, dtype, aoti_torch_device_type_cpu(), 0, &handle));
    return Tensor(handle);
}

Tensor matrix(int64_t rows, int64_t columns, Type type) {
    const int64_t sizes[] = {rows, columns}, strides[] = {columns, 1};
    return empty(2, sizes, strides, type == Type::f32 ? aoti_torch_dtype_float32() : aoti_torch_dtype_bfloat16());
}

// f(begin, end) over [0, count), on as many threads as the work of one item is worth
template <class F>
void in_threads(int64_t count, int64_t item_work, const F& f) {
    const int64_t grain = item_work < thread_work ? thread_work / (item_work ? item_work : 1) : 1;
    if (count <= grain) f(int64_t{0}, count);
    else torch::stable::parallel_for(0, count, grain, f);
}

Format format_of(const std::string& name) {
    constexpr const char* names[] = {"fp32", "bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4", "nvfp4_a8"};
    int i = 0;
    while (i < (int)Format::unknown && name != names[i]) i++;
    STD_TORCH_CHECK(i < (int)Format::unknown, "tiled_linear: no kernel for the format '", name, "'");
    return (Format)i;
}

// What the tiles hold must be what N and K need.
void check_tiles(Linear& a, const Tensor& codes, const Optional& scales, int64_t group) {
    const int64_t tiles = (a.N + tile_width - 1) / tile_width, width = per_word(a.format), fixed = fixed_span(a.format);
    a.words = (a.K + width - 1) / width, a.span_words = a.words, a.spans = 1;
    check(codes, ScalarType::Int, tiles * a.words * tile_width, "tiled_linear: codes");
    if (!scale_bytes(a.format)) return;
    const int64_t span = fixed ? fixed * width : group;
    STD_TORCH_CHECK(span > 0 && span % width == 0 && a.K % span == 0, "tiled_linear: K must be whole blocks of ", span,
                    ", not ", a.K);
    a.span_words = span / width, a.spans = a.K / span;
    STD_TORCH_CHECK(scales, "tiled_linear: scales are missing");
    check(*scales, ScalarType::Byte, tiles * a.spans * tile_width * scale_bytes(a.format), "tiled_linear: scales");
}

// x before the product: normed, or act(gate) * up of its two halves; in its own type, in memory of this thread.
const void* prepared(const Linear& a, const Tensor& x, const float* norm, float eps, const std::string& activation) {
    static thread_local Scratch memory;
    if (!norm && activation.empty()) return x.const_data_ptr();
    const int64_t size = a.x_type == Type::f32 ? 4 : 2, row = a.K * size;
    char* out = (char*)memory.of(a.M * row);
    const char* in = (const char*)x.const_data_ptr();
    if (norm) {
        kernels().rms_norm({a.x_type, a.K, eps, in, nullptr, norm, out}, 0, a.M);
    } else {
        const bool gelu = activation != "silu";
        for (int64_t m = 0; m < a.M; m++, in += 2 * row)
            kernels().gated({a.x_type, gelu, in, in + row, out + m * row}, 0, a.K);
    }
    return out;
}

Tensor tiled_linear(Tensor x, Tensor codes, Optional scales, Optional row_scales, std::string format, int64_t group,
                    int64_t rows, int64_t width, Optional bias, Optional residual, bool float_out, Optional norm, double eps,
                    std::string activation) {
    Linear a{};
    a.format = format_of(format);
    STD_TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "tiled_linear: x must be a contiguous [M, K]");
    a.x_type = type_of(x, "tiled_linear");
    a.y_type = float_out ? Type::f32 : a.x_type;
    const bool gate = !activation.empty();
    STD_TORCH_CHECK(!gate || activation == "silu" || activation == "gelu_tanh",
                    "tiled_linear: no activation '", activation, "'; use 'silu' or 'gelu_tanh'");
    STD_TORCH_CHECK(!gate || (!norm && x.size(1) % 2 == 0), "tiled_linear: a gate needs [M, 2K] and no norm");
    a.M = x.size(0), a.N = rows, a.K = x.size(1) / (gate ? 2 : 1);
    STD_TORCH_CHECK(a.K == width, "tiled_linear: the weight is ", rows, " x ", width, ", x has ", a.K, " columns");
    STD_TORCH_CHECK(a.K > 0 && a.N >= 0, "tiled_linear: no weight is ", a.N, " x ", a.K);
    check_tiles(a, codes, scales, group);
    a.row_scales = floats(row_scales, (a.N + tile_width - 1) / tile_width * tile_width, "tiled_linear: row_scales");
    if (residual) {
        check(*residual, x.scalar_type(), a.M * a.N, "tiled_linear: residual");
        STD_TORCH_CHECK(residual->size(0) == a.M, "tiled_linear: residual: must be [", a.M, ", ", a.N, "]");
    }
    a.x = prepared(a, x, floats(norm, a.K, "tiled_linear: norm"), (float)eps, activation);
    a.codes = codes.const_data_ptr(), a.scales = data(scales);
    a.bias = floats(bias, a.N, "tiled_linear: bias"), a.residual = data(residual);
    Tensor y = matrix(a.M, a.N, a.y_type);
    a.y = y.mutable_data_ptr();

    const Kernels& k = kernels();
    a.packed_stride = k.packed_stride(a);
    void* packed = scratch.of(a.M * a.packed_stride);
    k.pack_x(a, packed);
    a.packed_x = packed;
    in_threads((a.N + tile_width - 1) / tile_width, tile_width * a.K * a.M,
               [&](int64_t begin, int64_t end) { k.linear(a, begin, end); });
    return y;
}

Tensor rms_norm(Tensor x, Tensor weight, double eps, Optional residual) {
    STD_TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "rms_norm: x must be a contiguous [M, H]");
    const int64_t M = x.size(0), H = x.size(1);
    check(weight, ScalarType::Float, H, "rms_norm: weight");
    if (residual) check(*residual, x.scalar_type(), M * H, "rms_norm: residual");
    const Type type = type_of(x, "rms_norm");
    Tensor y = matrix(M, H, type);
    const auto* weights = (const float*)weight.const_data_ptr();
    const RmsNorm a{type, H, (float)eps, x.const_data_ptr(), data(residual), weights, y.mutable_data_ptr()};
    in_threads(M, H, [&](int64_t begin, int64_t end) { kernels().rms_norm(a, begin, end); });
    return y;
}

Tensor attend(Tensor qkv, Optional q_norm, Optional k_norm, double eps, Tensor cos, Tensor sin, Tensor k_cache,
              Tensor v_cache, int64_t position, double scale, int64_t window) {
    STD_TORCH_CHECK(qkv.dim() == 2 && qkv.is_contiguous(), "attend: qkv must be a contiguous [M, (H+2*Hkv)*D]");
    STD_TORCH_CHECK(k_cache.dim() == 5 && v_cache.dim() == 3,
                    "attend: the caches must be [Hkv, blocks, words, 16, D / words] and [Hkv, max_len, D]");
    Attend a{};
    a.type = type_of(qkv, "attend");
    a.M = qkv.size(0), a.width = qkv.size(1), a.Hkv = v_cache.size(0), a.max_len = v_cache.size(1), a.D = v_cache.size(2);
    a.blocks = (a.max_len + 15) / 16;
    STD_TORCH_CHECK(a.D > 0 && a.Hkv > 0, "attend: caches of ", a.Hkv, " key heads of ", a.D, " hold nothing");
    a.H = a.width / a.D - 2 * a.Hkv;
    a.position = position, a.window = window, a.eps = (float)eps, a.scale = (float)scale;
    STD_TORCH_CHECK(position >= 0 && position <= a.max_len - a.M && position <= cos.size(0) - a.M, "attend: ", a.M,
                    " rows from ", position, " on do not fit into a cache of ", a.max_len, " rows");
    const int64_t end = position + a.M;
    STD_TORCH_CHECK(a.D % 2 == 0 && a.width % a.D == 0 && a.H > 0 && a.H % a.Hkv == 0 && window >= 0,
                    "attend: ", a.width, " columns do not fit ", a.Hkv, " key heads of ", a.D);
    const ScalarType type = qkv.scalar_type();
    check(k_cache, type, a.Hkv * a.blocks * a.D * 16, "attend: k_cache");
    check(v_cache, type, a.Hkv * a.max_len * a.D, "attend: v_cache");
    check(cos, ScalarType::Float, cos.size(0) * a.D / 2, "attend: cos");
    check(sin, ScalarType::Float, cos.numel(), "attend: sin");
    a.q_norm = floats(q_norm, a.D, "attend: q_norm"), a.k_norm = floats(k_norm, a.D, "attend: k_norm");
    a.qkv = qkv.const_data_ptr();
    a.cos = (const float*)cos.const_data_ptr(), a.sin = (const float*)sin.const_data_ptr();
    a.k_cache = k_cache.mutable_data_ptr(), a.v_cache = v_cache.mutable_data_ptr();
    a.rotated_q = (float*)scratch.of(a.M * a.H * a.D * sizeof(float));
    Tensor y = matrix(a.M, a.H * a.D, a.type);
    a.y = y.mutable_data_ptr();

    const Kernels& kernel = kernels();
    kernel.append(a);
    const int64_t passes = (a.M + kernel.attend_rows - 1) / kernel.attend_rows;
    in_threads(passes * a.H, 2 * end * a.D * kernel.attend_rows,
               [&](int64_t from, int64_t to) { kernel.attend(a, from, to); });
    return y;
}

Tensor argmax(Tensor logits) {
    STD_TORCH_CHECK(logits.dim() == 2 && logits.size(1) > 0 && logits.is_contiguous(),
                    "argmax: needs a contiguous [M, vocab]");
    check(logits, ScalarType::Float, logits.numel(), "argmax: logits");
    const int64_t M = logits.size(0), n = logits.size(1);
    const int64_t stride = 1;
    Tensor found = empty(1, &M, &stride, aoti_torch_dtype_int64());
    const auto* x = (const float*)logits.const_data_ptr();
    auto* out = (int64_t*)found.mutable_data_ptr();
    in_threads(M, n, [&](int64_t begin, int64_t end) {
        for (int64_t m = begin; m < end; m++) out[m] = kernels().argmax(x + m * n, n);
    });
    return found;
}

int64_t pick(Tensor weights, double u) {
    check(weights, ScalarType::Float, weights.numel(), "pick: weights");
    const int64_t found = kernels().pick((const float*)weights.const_data_ptr(), weights.numel(), u);
    STD_TORCH_CHECK(found >= 0, "pick: no weight is above 0");
    return found;
}

Tensor law(Tensor logits, double temperature, int64_t top_k, double top_p) {
    STD_TORCH_CHECK(logits.dim() > 0, "law: needs logits of [..., vocab]");
    STD_TORCH_CHECK(temperature > 0, "law: a temperature of ", temperature, " has no law");
    logits = torch::stable::contiguous(torch::stable::to(logits, ScalarType::Float));
    const auto sizes = logits.sizes(), strides = logits.strides();
    Tensor p = empty(logits.dim(), sizes.data(), strides.data(), aoti_torch_dtype_float32());
    if (!logits.numel()) return p;
    const int64_t n = sizes[logits.dim() - 1];
    STD_TORCH_CHECK(n < 1 << 23, "law: sums of ", n, " weights do not fit into 64 bits");
    const Law a{n, top_k, (float)temperature, (float)top_p, (const float*)logits.const_data_ptr(),
                (float*)p.mutable_data_ptr()};
    in_threads(logits.numel() / n, law_work * n, [&](int64_t begin, int64_t end) { kernels().law(a, begin, end); });
    return p;
}

int64_t read_checksum(Tensor buffer) {
    const bool words_of_bytes = buffer.scalar_type() == ScalarType::Byte && buffer.numel() % 8 == 0;
    STD_TORCH_CHECK(words_of_bytes && buffer.is_contiguous(),
                    "read_checksum: needs a contiguous uint8 buffer of whole 64-bit words");
    const auto* words = (const uint64_t*)buffer.const_data_ptr();
    std::atomic<uint64_t> total{0};
    in_threads(buffer.numel() / 8, 1,
               [&](int64_t begin, int64_t end) { total += kernels().checksum(words, begin, end); });
    return (int64_t)total.load();
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(acctax, CPU, m) {
    m.impl("tiled_linear", TORCH_BOX(&tiled_linear));
    m.impl("rms_norm", TORCH_BOX(&rms_norm));
    m.impl("attend", TORCH_BOX(&attend));
    m.impl("argmax", TORCH_BOX(&argmax));
    m.impl("pick", TORCH_BOX(&pick));
    m.impl("law", TORCH_BOX(&law));
    m.impl("read_checksum", TORCH_BOX(&read_checksum));
}
