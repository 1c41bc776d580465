// What the CPU kernels offer, free of torch: plain functions on pointers, compiled once per instruction set.
//
// A call is split by its caller into independent ranges, so that threads never change a result; and every
// output element is summed in an order that depends on its own inputs' length alone, so that M (the rows)
// never does.
//
// A function or template of the standard library that is not inlined may be shared by all object files, and
// then be the one that was compiled for a processor other than this: the kernels use none.
#pragma once

#include <cstdint>
#include <cstring>

namespace acctax {

enum class Format { fp32, bf16, fp8, int8, int4, nvfp4, mxfp4, nf4, unknown };
enum class Type { f32, bf16 };

// y [M,N] = x [M,K] @ W.T + bias + residual. W is read as packed: see formats.inl.
struct Linear {
    Format format;
    Type x_type, y_type;
    int64_t M, N, K, group;
    const void* x;
    const void* codes;
    const void* scales;         // per row, group or block, in the format's own type
    const float* global_scale;  // nvfp4: one number, or one for each output feature
    int64_t global_stride;      // 0 or 1
    const float* bias;          // [N] or null
    const void* residual;       // [M,N] in x_type or null
    void* y;
    const void* packed_x;       // x as pack_x left it
    int64_t packed_stride;      // bytes of packed_x for each row
};

struct RmsNorm {
    Type type;
    int64_t H;
    float eps;
    const void *x, *residual;  // [M,H]; residual may be null
    const float* weight;       // [H]
    void* y;
};

struct Gated {
    Type type;
    bool gelu;  // else silu
    const void *gate, *up;
    void* y;
};

struct Attend {
    Type type;
    int64_t M, H, Hkv, D, width, max_len, position, window;
    float eps, scale;
    const void* qkv;                   // [M,width], width = (H+2*Hkv)*D: q, k and v side by side
    const float *q_norm, *k_norm;      // [D] or null
    const float *cos, *sin;            // [max_len,D/2]
    void *k_cache, *v_cache;           // [Hkv,max_len,D]
    float* rotated_q;                  // scratch [M,H,D]
    void* y;                           // [M,H*D]
};

constexpr int64_t linear_chunk = 16;  // output features: the unit of linear's ranges

// One instruction set's functions. Ranges are half open.
struct Kernels {
    const char* isa;
    int64_t (*packed_stride)(const Linear&);        // bytes of pack_x's result for each row of x
    void (*pack_x)(const Linear&, void* packed_x);  // x in the order and the type in which linear reads it
    void (*linear)(const Linear&, int64_t begin, int64_t end);     // chunks of output features
    void (*rms_norm)(const RmsNorm&, int64_t begin, int64_t end);  // rows
    void (*gated)(const Gated&, int64_t begin, int64_t end);       // elements
    void (*append)(const Attend&);                                 // fills rotated_q, new rows of the caches
    void (*attend)(const Attend&, int64_t begin, int64_t end);     // heads: row m's head h is m * H + h
    uint64_t (*checksum)(const uint64_t*, int64_t begin, int64_t end);  // words
};

const Kernels* kernels_avx512bf16();  // null where the compiler or the processor lacks it
const Kernels* kernels_avx512();
const Kernels* kernels_avx2();
const Kernels* kernels_scalar();

// A thread's own memory, which grows and stays.
class Scratch {
public:
    ~Scratch();
    void* of(int64_t bytes);  // 64-byte aligned; what it held is lost when it grows

private:
    void* data = nullptr;
    int64_t size = 0;
};

}  // namespace acctax
