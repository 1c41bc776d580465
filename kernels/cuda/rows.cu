// What is computed row by row: the norm, and the gate between the two halves of an MLP. A block takes a row, or a part of
// one element by element.
#include "bf16.cuh"

namespace acctax {

constexpr int row_threads = 256;

// y = x / rms(x) · weight (+ residual)
template <class T>
__global__ void __launch_bounds__(row_threads) rms_norm_kernel(RmsNorm a) {
    __shared__ float parts[row_threads / 32];
    const size_t row = (size_t)blockIdx.x * a.H;
    const T* x = (const T*)a.x + row;
    float squares = 0;
    for (int i = threadIdx.x; i < a.H; i += row_threads) {
        const float value = load(x + i);
        squares = fmaf(value, value, squares);
    }
    const float inverse = 1 / sqrtf(block_sum(squares, parts) / a.H + a.eps);
    for (int i = threadIdx.x; i < a.H; i += row_threads) {
        float y = load(x + i) * inverse * a.weight[i];
        if (a.residual) y += load((const T*)a.residual + row + i);
        store((T*)a.y + row + i, y);
    }
}

// act(gate) · up with act(z) = z / (1 + e^-s): s = z for silu, 2 sqrt(2/pi) (z + 0.044715 z^3) for gelu_tanh, because
// (1 + tanh u) / 2 = 1 / (1 + e^-2u).
static __global__ void __launch_bounds__(row_threads) gated_kernel(Gated a) {
    const int m = blockIdx.y, i = blockIdx.x * row_threads + threadIdx.x;
    if (i >= a.K) return;
    const bf16* x = (const bf16*)a.x + (size_t)m * 2 * a.K;
    const float z = load(x + i);
    const float s = a.gelu ? z * 1.5957691216057308f * fmaf(z * z, 0.044715f, 1.0f) : z;
    store((bf16*)a.y + (size_t)m * a.K + i, z / (1 + expf(-s)) * load(x + a.K + i));
}

}  // namespace acctax

using namespace acctax;

int acctax_cuda_rms_norm(const RmsNorm* a, void* stream) {
    return launch(a->is_float ? rms_norm_kernel<float> : rms_norm_kernel<bf16>, dim3(a->M), row_threads, stream, *a);
}

int acctax_cuda_gated(const Gated* a, void* stream) {
    return launch(gated_kernel, dim3((a->K + row_threads - 1) / row_threads, a->M), row_threads, stream, *a);
}
