// Rejection sampling on the device. Every block finds how many drafts are kept, from K numbers each of p, q and u; then its
// own slice of the law that the following token is drawn from: (p - q)⁺ after a rejection, p itself after none, and p too
// where p = q to the last bit. The last block draws: the first token at which the running sum reaches u of the total.
#include "law.cuh"

namespace acctax {

constexpr int verify_threads = 256;

static __global__ void __launch_bounds__(verify_threads) verify_kernel(Verify a) {
    __shared__ double parts[verify_threads / 32];
    __shared__ int rejected, drawn, likely;
    const int K = a.law.M - 1, vocab = a.law.vocab, slices = a.law.slices, slice = blockIdx.x, thread = threadIdx.x;
    const float temperature = a.law.temperature;
    const Shape* shapes = (const Shape*)a.law.shape;

    if (thread == 0) rejected = K, drawn = vocab, likely = -1;
    __syncthreads();
    if (thread < K) {
        const int64_t x = a.drafts[thread];
        const bool token = 0 <= x && x < vocab;
        const float p = token ? probability(a.law.logits[(size_t)thread * vocab + x], shapes[thread], temperature) : 0;
        const float q = token && a.q ? a.q[(size_t)thread * vocab + x] : 1;
        if (!(q > 0 && a.u[thread] * q < p)) atomicMin(&rejected, thread);
    }
    __syncthreads();
    const int n = rejected;

    const float* logits = a.law.logits + (size_t)n * vocab;
    const Shape shape = shapes[n];
    auto p = [&](int i) { return probability(logits[i], shape, temperature); };
    auto residual = [&](int i) -> float {
        if (n == K) return p(i);
        if (!a.q) return i == a.drafts[n] ? 0 : p(i);
        const float rest = p(i) - a.q[(size_t)n * vocab + i];
        return rest > 0 ? rest : 0;
    };
    auto bounds = [&](int s) { return (int)((int64_t)vocab * s / slices); };
    double rest = 0, all = 0;
    for (int i = bounds(slice) + thread; i < bounds(slice + 1); i += verify_threads) rest += residual(i), all += p(i);
    rest = block_sum(rest, parts), all = block_sum(all, parts);
    if (thread == 0) a.sums[slice] = rest, a.sums[slices + slice] = all;
    if (!last_to_arrive(a.counter, slices)) return;

    __shared__ double down_to[most_slices];
    __shared__ int reached, last;  // the slice that reaches the goal; the last one that holds anything
    double total = 0;
    auto sum_from = [&](const double* sums) {
        const double own = thread < slices ? __ldcg(sums + thread) : 0;
        const double sum = running_sum(own, parts);
        if (thread < slices) down_to[thread] = sum;
        __syncthreads();
        total = down_to[slices - 1];
        return own;
    };
    if (thread == 0) reached = slices, last = 0;
    double own = sum_from(a.sums);
    const bool fall_back = !(total > 0);
    if (fall_back) own = sum_from(a.sums + slices);
    auto chosen = [&](int i) { return fall_back ? p(i) : residual(i); };
    const double goal = a.u[K] * total;
    if (thread < slices && own > 0) {
        atomicMax(&last, thread);
        if (down_to[thread] >= goal) atomicMin(&reached, thread);
    }
    __syncthreads();
    const int s = reached < slices ? reached : last;
    const double before = s > 0 ? down_to[s - 1] : 0;
    const int count = bounds(s + 1) - bounds(s);  // a thread's part of it: neighbours
    const int from = bounds(s) + (int)((int64_t)count * thread / verify_threads);
    const int to = bounds(s) + (int)((int64_t)count * (thread + 1) / verify_threads);
    own = 0;
    for (int i = from; i < to; i++) own += chosen(i);
    double sum = before + (running_sum(own, parts) - own);
    int positive = -1;
    for (int i = from; i < to; i++) {
        const float weight = chosen(i);
        sum += weight;
        if (weight > 0) {
            positive = i;
            if (sum >= goal) {
                atomicMin(&drawn, i);
                break;
            }
        }
    }
    if (positive >= 0) atomicMax(&likely, positive);  // if rounding keeps the sum below the goal: the last of the slice
    __syncthreads();
    if (thread > K + 1) return;
    const int token = drawn < vocab ? drawn : likely;
    a.out[thread] = thread == 0 ? n : thread <= n ? a.drafts[thread - 1] : thread == n + 1 ? token : -1;
}

}  // namespace acctax

using namespace acctax;

int acctax_cuda_verify(const Verify* a, void* stream) {
    return launch(verify_kernel, dim3(a->law.slices), verify_threads, stream, *a);
}
