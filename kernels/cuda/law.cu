// Each row's shape (law.cuh). Slices of a row, a block each, find its largest logit and the sum of its weights. Where top-k
// or top-p is asked for, they also say how much lies at which level, and the last block of the row reads again only the
// logits of the level at which enough lies, to find the least that is kept (least.cuh). Logits equal to it are all kept.
#include "least.cuh"

namespace acctax {

static __global__ void __launch_bounds__(law_threads) law_kernel(Law a) {
    __shared__ float parts[law_groups];
    __shared__ unsigned count[law_levels], high[law_levels], low[law_levels];
    const int slice = blockIdx.x, m = blockIdx.y, thread = threadIdx.x, group = slice * law_groups + thread / 32;
    const bool cut_k = a.top_k > 0 && a.top_k < a.vocab, cut_p = a.top_p < 1;
    const Logits row{a.logits + (size_t)m * a.vocab, a.vocab};
    const int begin = group_begin(a, group) + thread % 32, end = group_begin(a, group + 1);
    Slice* slices = a.parts + (size_t)m * a.slices;
    Slice& own = slices[slice];

    float largest = -INFINITY;
    for (int i = begin; i < end; i += 32) largest = fmaxf(largest, row.values[i]);
    largest = warp_max(largest);
    if (thread % 32 == 0) parts[thread / 32] = own.largest_of[thread / 32] = largest;
    if (thread < law_levels) count[thread] = high[thread] = low[thread] = 0;
    __syncthreads();
    for (float part : parts) largest = fmaxf(largest, part);

    const Levels of_slice(largest, a.temperature);
    float sum = 0;
    for (int i = begin; i < end; i += 32) {
        const float logit = row.values[i];
        if (logit == -INFINITY) continue;
        const float w = weight(logit, largest, a.temperature);
        sum += w;
        if (!cut_k && !cut_p) continue;
        const int level = of_slice.of(logit);
        if (level == law_levels) continue;
        const Whole units = w > 0 ? min((Whole)(w * 0x1p36f), ((Whole)1 << 36) - 1) : 0;  // 2^14 halves of it fit a word
        if (cut_k) atomicAdd(count + level, 1u);
        atomicAdd(high + level, (unsigned)(units >> law_low_bits));
        atomicAdd(low + level, (unsigned)units & ((1u << law_low_bits) - 1));
    }
    sum = block_sum(sum, parts);
    if (thread == 0) own.largest = largest, own.sum = sum;
    if (thread < law_levels && (cut_k || cut_p))
        own.count[thread] = count[thread], own.high[thread] = high[thread], own.low[thread] = low[thread];
    if (!last_to_arrive(a.counters + m, a.slices)) return;

    __shared__ float largest_of[most_slices], sum_of[most_slices], worth[most_slices];
    if (thread < a.slices) largest_of[thread] = __ldcg(&slices[thread].largest), sum_of[thread] = __ldcg(&slices[thread].sum);
    __syncthreads();
    largest = -INFINITY;
    for (int s = 0; s < a.slices; s++) largest = fmaxf(largest, largest_of[s]);
    if (thread < a.slices) worth[thread] = sum_of[thread] == 0 ? 0 : weight(largest_of[thread], largest, a.temperature);
    __syncthreads();
    float total = 0, least = -INFINITY;
    for (int s = 0; s < a.slices; s++) total += sum_of[s] * worth[s];

    if ((cut_k || cut_p) && total == total)  // NaN stays what it is
        least = cut(a, slices, row, largest, largest_of, worth, total);
    if (thread == 0) ((Shape*)a.shape)[m] = {largest, least, 1 / total, 0};
}

static __global__ void __launch_bounds__(law_threads) law_write_kernel(Law a) {
    const int m = blockIdx.y, i = blockIdx.x * law_threads + threadIdx.x;
    if (i >= a.vocab) return;
    const size_t at = (size_t)m * a.vocab + i;
    a.p[at] = probability(a.logits[at], ((const Shape*)a.shape)[m], a.temperature);
}

}  // namespace acctax

using namespace acctax;

int acctax_cuda_law(const Law* a, void* stream) {
    return launch(law_kernel, dim3(a->slices, a->M), law_threads, stream, *a);
}

int acctax_cuda_law_write(const Law* a, void* stream) {
    const dim3 grid((a->vocab + law_threads - 1) / law_threads, a->M);
    return launch(law_write_kernel, grid, law_threads, stream, *a);
}
