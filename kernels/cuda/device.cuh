// What every kernel file starts from: CUDA's runtime under nvcc; another compiler brings a stand-in of its own first.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace acctax {

template <class T>
struct Itself {
    using type = T;
};

// One kernel on a stream; returns the runtime's error code.
template <class... P>
int launch(void (*kernel)(P...), dim3 grid, int threads, void* stream, typename Itself<P>::type... arguments) {
    kernel<<<grid, threads, 0, (cudaStream_t)stream>>>(arguments...);
    return (int)cudaGetLastError();
}

}  // namespace acctax
#endif

namespace acctax {

constexpr unsigned whole_warp = 0xffffffffu;

// Whether this block is the last of `expected` that came by, the same in all its threads. The last one sees what the
// others wrote before they came, and leaves the counter at 0.
__device__ inline bool last_to_arrive(unsigned* counter, unsigned expected) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1u) == expected - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

template <class T>
__device__ inline T warp_sum(T a) {
    for (int distance = 16; distance; distance /= 2) a += __shfl_xor_sync(whole_warp, a, distance);
    return a;
}

__device__ inline float warp_max(float a) {
    for (int distance = 16; distance; distance /= 2) a = fmaxf(a, __shfl_xor_sync(whole_warp, a, distance));
    return a;
}

// The sum over a block, the same in all its threads. `parts` is shared memory, one a warp.
template <class T>
__device__ inline T block_sum(T a, T* parts) {
    a = warp_sum(a);
    __syncthreads();  // what `parts` held was read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = a;
    __syncthreads();
    T sum = parts[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) sum += parts[w];
    return sum;
}

// What this thread and those before it hold together. `parts` is shared memory, one a warp.
template <class T>
__device__ inline T running_sum(T a, T* parts) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        const T left = __shfl_up_sync(whole_warp, a, distance);
        if (lane >= distance) a += left;
    }
    __syncthreads();  // what `parts` held was read
    if (lane == 31) parts[warp] = a;
    __syncthreads();
    T before = 0;
    for (int w = 0; w < warp; w++) before += parts[w];
    return before + a;
}

}  // namespace acctax
