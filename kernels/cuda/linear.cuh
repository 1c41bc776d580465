// The skinny linear on tensor cores, for every M: D = W · xᵀ, so that 16 output features fill the product's long side and
// the rows of x its side of 8. A row of x is a column of D that no other touches, and where K is cut into parts depends on
// the weight alone: a row's bits never depend on M.
//
// A block computes a panel of 64 features, 4 tiles of 16, over one part of K, and its warps take a part of that each. A
// warp's step reads 4 times 512 bytes of codes that follow each other, each lane 16 bytes at a time, and one step ahead of
// the products. Each weight is decoded once for all rows.
#pragma once

#include "formats.cuh"
#include "mma.cuh"

namespace acctax {

constexpr int linear_warps = 4, tiles = panel_width / 16;

// A lane's share of one step, N8 · 8 rows of x.
template <class W, int N8>
struct Step {
    uint4 codes[tiles];
    uint32_t scales[W::scale_words ? W::scale_words : 1];
    uint32_t x[N8][W::products][2];
};

// `count` elements, two a word.
template <int count>
__device__ inline void load_x(const bf16* x, uint32_t* out) {
    if constexpr (count == 4) {
        const uint2 part = *(const uint2*)x;
        out[0] = part.x, out[1] = part.y;
    } else {
#pragma unroll
        for (int i = 0; i < count / 2; i += 4) {
            const uint4 part = *(const uint4*)(x + 2 * i);
            out[i] = part.x, out[i + 1] = part.y, out[i + 2] = part.z, out[i + 3] = part.w;
        }
    }
}

template <class W, int N8>
__device__ inline void load_step(const Linear& a, int steps, int spans, int at, Step<W, N8>& s) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, panel = blockIdx.x;
    const uint4* codes = (const uint4*)a.codes + ((size_t)panel * steps + at) * tiles * 32 + lane;
#pragma unroll
    for (int i = 0; i < tiles; i++) s.codes[i] = __ldcs(codes + i * 32);  // read once: first to leave the cache
    if constexpr (W::scale_words > 0) {
        const uint32_t* scales = (const uint32_t*)a.scales + W::scales_at(panel, steps, at, spans, a.group, g, t);
        if constexpr (W::scale_words == 2) {
            const uint2 part = *(const uint2*)scales;
            s.scales[0] = part.x, s.scales[1] = part.y;
        } else {
            // int4: of one span 4 words, the next span's lie 32 words on; nf4: 8 words in a row
            constexpr int stride = W::format == Format::int4 ? 32 : 4;
#pragma unroll
            for (int i = 0; i < W::scale_words; i += 4) {
                const uint4 part = *(const uint4*)(scales + i / 4 * stride);
                s.scales[i] = part.x, s.scales[i + 1] = part.y, s.scales[i + 2] = part.z, s.scales[i + 3] = part.w;
            }
        }
    }
#pragma unroll
    for (int n = 0; n < N8; n++) {
        const int m = 8 * n + g;
        uint32_t* x = s.x[n][0];
        if (m < a.M) {
            const bf16* row = (const bf16*)a.x + (size_t)m * steps * W::step + at * W::step;
            if constexpr (W::strided) {
#pragma unroll
                for (int j = 0; j < W::products; j++) load_x<4>(row + 16 * j + 4 * t, x + 2 * j);
            } else {
                load_x<W::step / 4>(row + t * W::step / 4, x);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 2 * W::products; i++) x[i] = 0;
        }
    }
}

template <class W, int N8>
__device__ inline void multiply_step(const Step<W, N8>& s, float (&sum)[tiles][N8][4]) {
#pragma unroll
    for (int i = 0; i < tiles; i++) {
        if constexpr (W::scaled) {
#pragma unroll
            for (int block = 0; block < W::products / W::per_scale; block++) {
                float part[N8][4] = {};
#pragma unroll
                for (int j = block * W::per_scale; j < (block + 1) * W::per_scale; j++) {
                    uint32_t weights[4];
                    W::fragment(s.codes[i], s.scales, i, j, weights);
#pragma unroll
                    for (int n = 0; n < N8; n++) multiply_add(part[n], weights, s.x[n][j]);
                }
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const float factor = W::factor(s.scales, i, block, c / 2);
#pragma unroll
                    for (int n = 0; n < N8; n++) sum[i][n][c] = fmaf(part[n][c], factor, sum[i][n][c]);
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < W::products; j++) {
                uint32_t weights[4];
                W::fragment(s.codes[i], s.scales, i, j, weights);
#pragma unroll
                for (int n = 0; n < N8; n++) multiply_add(sum[i][n], weights, s.x[n][j]);
            }
        }
    }
}

// The last step for feature n in row m.
__device__ inline void finish(const Linear& a, float y, int m, int n) {
    if (a.row_scales) y *= a.row_scales[n];
    if (a.bias) y += a.bias[n];
    const size_t at = (size_t)m * a.N + n;
    if (a.residual) y += from_bf16(((const bf16*)a.residual)[at]);
    if (a.float_out) ((float*)a.y)[at] = y;
    else ((bf16*)a.y)[at] = to_bf16(y);
}

template <class W, int N8>
__global__ void __launch_bounds__(linear_warps * 32) linear_kernel(Linear a) {
    constexpr int rows = 8 * N8, threads = linear_warps * 32;
    __shared__ float sums[linear_warps][rows][panel_width + 4];  // + 4: rows start in different banks
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int panel = blockIdx.x, split = blockIdx.y;
    const int steps = (a.K + W::step - 1) / W::step;
    const int spans = W::per_scale < 4 ? steps * (4 / W::per_scale) : a.group ? a.K / a.group : 0;
    const unsigned worker = split * linear_warps + warp, workers = a.splits * linear_warps;
    const int begin = steps * worker / workers, end = steps * (worker + 1) / workers;

    float sum[tiles][N8][4] = {};
    Step<W, N8> now, next;
    if (begin < end) load_step<W, N8>(a, steps, spans, begin, next);
#pragma unroll 1
    for (int at = begin; at < end; at++) {
        now = next;
        if (at + 1 < end) load_step<W, N8>(a, steps, spans, at + 1, next);
        multiply_step<W, N8>(now, sum);
    }

#pragma unroll
    for (int i = 0; i < tiles; i++)
#pragma unroll
        for (int n = 0; n < N8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) sums[warp][8 * n + 2 * t + c % 2][16 * i + g + c / 2 * 8] = sum[i][n][c];
    __syncthreads();

    const int features = min(panel_width, a.N - panel * panel_width), n0 = panel * panel_width;
    float* partial = a.splits > 1 ? a.partial + (size_t)panel * panel_width * max_rows : nullptr;
    const size_t stride = (size_t)gridDim.x * panel_width * max_rows;  // from one split to the next
    for (int i = threadIdx.x; i < a.M * panel_width; i += threads) {
        const int m = i / panel_width, n = i % panel_width;
        float y = 0;
#pragma unroll
        for (int w = 0; w < linear_warps; w++) y += sums[w][m][n];
        if (a.splits > 1) partial[split * stride + i] = y;
        else if (n < features) finish(a, y, m, n0 + n);
    }
    if (a.splits == 1 || !last_to_arrive(a.counters + panel, a.splits)) return;
    for (int i = threadIdx.x; i < a.M * panel_width; i += threads) {
        if (i % panel_width >= features) continue;
        float y = 0;
        for (int s = 0; s < a.splits; s++) y += __ldcg(partial + s * stride + i);
        finish(a, y, i / panel_width, n0 + i % panel_width);
    }
}

// x with zeros behind its rows, up to whole steps.
static __global__ void pad_kernel(const bf16* x, int K, int width, bf16* padded) {
    const int m = blockIdx.y, k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < width) padded[(size_t)m * width + k] = k < K ? x[(size_t)m * K + k] : 0;
}

template <class W>
int launch_linear(Linear a, void* stream) {
    if (a.K % W::step) {
        const int width = (a.K + W::step - 1) / W::step * W::step;
        const dim3 blocks((width + 255) / 256, a.M);
        if (const int error = launch(pad_kernel, blocks, 256, stream, (const bf16*)a.x, a.K, width, (bf16*)a.padded_x))
            return error;
        a.x = a.padded_x;
    }
    const dim3 grid((a.N + panel_width - 1) / panel_width, a.splits);
    return a.M <= 8 ? launch(linear_kernel<W, 1>, grid, linear_warps * 32, stream, a)
                    : launch(linear_kernel<W, 2>, grid, linear_warps * 32, stream, a);
}

}  // namespace acctax
