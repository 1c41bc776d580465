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

enum class Format { fp32, bf16, fp8, int8, int4, nvfp4, mxfp4, nf4, nvfp4_a8, unknown };
enum class Type { f32, bf16 };

constexpr int64_t lanes = 16, tile_width = 32;  // output features of a register, of a tile

// Weights in a word of 32 bits, along K.
constexpr int per_word(Format f) {
    return f == Format::fp32 ? 1 : f == Format::bf16 ? 2 : f == Format::fp8 || f == Format::int8 ? 4 : 8;
}

// Bytes of a block scale; 0: the format has none.
constexpr int scale_bytes(Format f) {
    switch (f) {
        case Format::int4: return 2;
        case Format::nf4: return 4;
        case Format::nvfp4: case Format::nvfp4_a8: case Format::mxfp4: return 1;
        default: return 0;
    }
}

// Words under one block scale, where the format fixes it.
constexpr int fixed_span(Format f) {
    switch (f) {
        case Format::nvfp4: case Format::nvfp4_a8: return 2;
        case Format::mxfp4: return 4;
        case Format::nf4: return 8;
        default: return 0;
    }
}

// y [M,N] = x [M,K] @ W.T + bias + residual, W in tiles of 32 output features (quant/tiles.py).
struct Linear {
    Format format;
    Type x_type, y_type;
    int64_t M, N, K;
    int64_t words, spans, span_words;  // along K: words of codes; spans under one scale, and the words of each
    const void* x;
    const void* codes;        // [tiles, words, 32] words of 32 bits
    const void* scales;       // [tiles, spans, 32] in the format's own type, or null
    const float* row_scales;  // [tiles * 32] or null
    const float* bias;        // [N] or null
    const void* residual;     // [M,N] in x_type or null
    void* y;
    const void* packed_x;     // x as pack_x left it
    int64_t packed_stride;    // bytes of packed_x for each row
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
    int64_t M, H, Hkv, D, width, max_len, blocks, position, window;
    float eps, scale;
    const void* qkv;                   // [M,width], width = (H+2*Hkv)*D: q, k and v side by side
    const float *q_norm, *k_norm;      // [D] or null
    const float *cos, *sin;            // [max_len,D/2]
    void* k_cache;                     // [Hkv,blocks,words,16] words of 32 bits
    void* v_cache;                     // [Hkv,max_len,D]
    float* rotated_q;                  // scratch [M,H,D]
    void* y;                           // [M,H*D]
};

// softmax(logits / temperature), cut by top-k, then by top-p.
struct Law {
    int64_t vocab, top_k;      // top_k 0: all
    float temperature, top_p;  // top_p 1: all
    const float* logits;       // [M,vocab]
    float* p;                  // [M,vocab]
};

// One instruction set's functions. Ranges are half open.
struct Kernels {
    const char* isa;
    int64_t (*packed_stride)(const Linear&);        // bytes of pack_x's result for each row of x
    void (*pack_x)(const Linear&, void* packed_x);  // x in the order and the type in which linear reads it
    void (*linear)(const Linear&, int64_t begin, int64_t end);     // tiles
    void (*rms_norm)(const RmsNorm&, int64_t begin, int64_t end);  // rows
    void (*gated)(const Gated&, int64_t begin, int64_t end);       // elements
    void (*append)(const Attend&);                                 // fills rotated_q, new rows of the caches
    int64_t attend_rows;                                           // of a head, that attend takes together
    void (*attend)(const Attend&, int64_t begin, int64_t end);     // passes of so many rows, of each H heads
    int64_t (*argmax)(const float*, int64_t n);
    int64_t (*pick)(const float* weights, int64_t n, double u);
    void (*law)(const Law&, int64_t begin, int64_t end);                // rows
    uint64_t (*checksum)(const uint64_t*, int64_t begin, int64_t end);  // words
};

const Kernels* kernels_avx512bf16();  // null where it was not compiled for
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
