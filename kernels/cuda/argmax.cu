// The best token of each row, and greedy verification: which drafts are the best tokens themselves. A row is cut into
// slices, a block each.
#include "bf16.cuh"

namespace acctax {

constexpr int argmax_threads = 256;

// Ordered as floats are: larger values first, NaN before everything, and of equals the first index.
__device__ inline unsigned long long rank(float value, int index) {
    const uint32_t key = value != value ? 0xffffffff : ordered(value);
    return (unsigned long long)key << 32 | (0xffffffff - (uint32_t)index);
}

// out [M + 1] or null: how many of the drafts [M - 1] are the best tokens, these, the best token after them, then -1.
static __global__ void __launch_bounds__(argmax_threads)
argmax_kernel(ArgMax a, const int64_t* drafts, int64_t* out, unsigned* counter) {
    __shared__ unsigned long long parts[argmax_threads / 32];
    const int slice = blockIdx.x, m = blockIdx.y, thread = threadIdx.x;
    const int begin = (int64_t)a.vocab * slice / a.slices, end = (int64_t)a.vocab * (slice + 1) / a.slices;
    unsigned long long best = 0;
    auto take = [&](unsigned long long other) { best = other > best ? other : best; };
    for (int i = begin + thread; i < end; i += argmax_threads) take(rank(a.logits[(size_t)m * a.vocab + i], i));
    for (int distance = 16; distance; distance /= 2) take(__shfl_xor_sync(whole_warp, best, distance));
    if (thread % 32 == 0) parts[thread / 32] = best;
    __syncthreads();
    unsigned long long* slices = (unsigned long long*)a.best + (size_t)m * a.slices;
    if (thread == 0) {
        for (int w = 1; w < argmax_threads / 32; w++) take(parts[w]);
        slices[slice] = best;
    }
    if (!last_to_arrive(a.counters + m, a.slices)) return;
    if (thread < 32) {
        best = 0;
        for (int s = thread; s < a.slices; s += 32) take(__ldcg(slices + s));
        for (int distance = 16; distance; distance /= 2) take(__shfl_xor_sync(whole_warp, best, distance));
        if (thread == 0) a.found[m] = 0xffffffff - (uint32_t)best;
    }
    if (!out || !last_to_arrive(counter, a.M)) return;
    __shared__ int rejected;
    if (thread == 0) rejected = a.M - 1;
    __syncthreads();
    const long long* found = (const long long*)a.found;
    if (thread < a.M - 1 && drafts[thread] != __ldcg(found + thread)) atomicMin(&rejected, thread);
    __syncthreads();
    const int n = rejected;
    if (thread == 0) out[0] = n;
    if (thread < a.M) out[1 + thread] = thread < n ? drafts[thread] : thread == n ? __ldcg(found + n) : -1;
}

}  // namespace acctax

using namespace acctax;

int acctax_cuda_argmax(const ArgMax* a, void* stream) {
    return acctax_cuda_verify_greedy(a, nullptr, nullptr, nullptr, stream);
}

int acctax_cuda_verify_greedy(const ArgMax* a, const int64_t* drafts, int64_t* out, unsigned* counter, void* stream) {
    return launch(argmax_kernel, dim3(a->slices, a->M), argmax_threads, stream, *a, drafts, out, counter);
}
