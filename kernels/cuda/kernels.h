// What the CUDA kernels offer, free of torch and of CUDA's headers: each function puts one op on a stream and returns the
// runtime's error code. Pointers are to device memory but for these structs. Kernels read each struct by value.
//
// Every output element is computed in an order that depends on its own inputs' lengths alone: the number of rows M never
// changes a row's bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace acctax {

enum class Format : int { bf16, fp8, int8, int4, nvfp4, mxfp4, nf4, unknown };

constexpr int max_rows = 16;    // of x in one launch
constexpr int most_slices = 64; // of a row of logits, a block each
constexpr int panel_width = 64; // output features that a block computes side by side

// Weights along K in 16 bytes of four lanes: what a step of the product takes.
constexpr int step_width(Format f) {
    return f == Format::bf16 ? 16 : f == Format::fp8 || f == Format::int8 ? 32 : 64;
}

// y [M,N] = x [M,K] @ W.T · row_scales + bias + residual, W laid out in panels (quant/panels.py).
struct Linear {
    int format;               // Format
    int M, N, K, group;       // group: weights along K under one block scale
    int float_out;
    const void* x;            // [M,K] bf16
    const void* codes;        // [panels, steps, 4, 32] of 16 bytes
    const void* scales;       // block scales as the format has them, or null
    const float* row_scales;  // [panels * 64] or null
    const float* bias;        // [N] or null
    const void* residual;     // [M,N] bf16 or null
    void* y;                  // bf16, or f32 if float_out
    void* padded_x;           // scratch [M, K up to whole steps] bf16, unused where K is whole steps
    int splits;               // of K, as linear_splits says
    float* partial;           // scratch [splits, panels * 64 * 16], unused for one split
    unsigned* counters;       // [panels], 0 before and after
};

struct RmsNorm {
    int M, H, is_float;        // else bf16
    float eps;
    const void *x, *residual;  // [M,H]; residual may be null
    const float* weight;       // [H]
    void* y;
};

struct Gated {
    int M, K, gelu;  // else silu
    const void* x;   // [M,2K] bf16: a gate beside what it lets through
    void* y;         // [M,K]
};

constexpr int attend_span = 128;   // positions of the cache that one block reads
constexpr int attend_queries = 16; // queries that one block answers: rows times heads of a key head

struct Attend {
    int M, H, Hkv, D, max_len, window;
    int chunks;                // blocks along the cache: enough for the last position
    int position;              // of the first row; a device's own count comes on top
    const int* moved;          // or null
    float eps, scale;
    const void* qkv;           // [M, (H + 2 Hkv) D] bf16
    const float *q_norm, *k_norm;  // [D] or null
    const float *cos, *sin;    // [max_len, D/2]
    void* k_cache;             // [Hkv, max_len in whole blocks of 16, D/2 words, 16, 2] bf16
    void* v_cache;             // [Hkv, max_len, D] bf16
    float* partial;            // scratch: attend_scratch floats
    unsigned* counters;        // [Hkv * groups of queries], 0 before and after
    void* y;                   // [M, H D] bf16
};

// The largest logit of each row.
struct ArgMax {
    int M, vocab, slices;
    const float* logits;  // [M, vocab]
    void* best;           // scratch [M, slices] of 16 bytes
    unsigned* counters;   // [M], 0 before and after
    int64_t* found;       // [M]
};

constexpr int law_groups = 16;  // of a slice's logits, a warp each
constexpr int law_levels = 256; // of logits, eighths of a factor of two in probability
constexpr int law_low_bits = 18;

// What a block says of its slice of a row. Weights are e^((logit - largest) / temperature).
struct Slice {
    float largest, sum;            // logit; of weights
    float largest_of[law_groups];  // logit
    // What lies at each level, from the slice's own highest down: how many logits, and their weights in units of
    // 2^-36, whose upper and lower halves are summed apart.
    unsigned count[law_levels], high[law_levels], low[law_levels];
};

// softmax(logits / temperature), cut by top-k, then by top-p: how each row's probabilities follow from its logits.
struct Law {
    int M, vocab, slices, top_k;  // vocab at most 2^20; top_k 0: all
    float temperature, top_p;     // top_p 1: all
    const float* logits;          // [M, vocab]
    Slice* parts;                 // scratch [M, slices]
    unsigned* counters;           // [M], 0 before and after
    void* shape;                  // [M] of 16 bytes: the largest logit, the least that is kept, 1 / total
    float* p;                     // [M, vocab], written by law_write
};

// Rejection sampling: which drafts are kept, and the token that follows.
struct Verify {
    Law law;             // of the target, M = K + 1 rows; its shape was filled before
    const float* q;      // [K, vocab] the laws the drafts were drawn from, or null: one-hot drafts
    const int64_t* drafts;  // [K]
    const double* u;     // [K + 1] in (0, 1]; the last draws the token that follows
    double* sums;        // scratch [2, slices]
    unsigned* counter;   // 0 before and after
    int64_t* out;        // [K + 2]: how many drafts are kept, then the committed tokens; the rest is -1
};

}  // namespace acctax

extern "C" {
int acctax_cuda_linear_splits(int format, int N, int K);
int acctax_cuda_linear(const acctax::Linear*, void* stream);
int acctax_cuda_rms_norm(const acctax::RmsNorm*, void* stream);
int acctax_cuda_gated(const acctax::Gated*, void* stream);
size_t acctax_cuda_attend_scratch(const acctax::Attend*);  // floats
int acctax_cuda_attend(const acctax::Attend*, void* stream);
int acctax_cuda_argmax(const acctax::ArgMax*, void* stream);
int acctax_cuda_law(const acctax::Law*, void* stream);        // shape
int acctax_cuda_law_write(const acctax::Law*, void* stream);  // p from shape
int acctax_cuda_verify(const acctax::Verify*, void* stream);
int acctax_cuda_verify_greedy(const acctax::ArgMax*, const int64_t* drafts, int64_t* out, unsigned* counter, void* stream);
}
