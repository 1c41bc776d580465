// Each row's shape (law.cuh). Slices of a row, a block each, find its largest logit and the sum of its weights. Where top-k
// or top-p is asked for, they also say how much lies at which level, and the last block of the row reads again only the
// logits from a level on that holds enough, to find the least that is kept (least.cuh). Logits equal to it are all kept.
#include "least.cuh"

namespace acctax {

static __global__ void __launch_bounds__(law_threads) law_kernel(Law a) {
    __shared__ float parts[law_groups];
    __shared__ Whole whole_parts[law_groups];
    __shared__ unsigned at_level[law_levels];
    const int slice = blockIdx.x, m = blockIdx.y, thread = threadIdx.x, group = slice * law_groups + thread / 32;
    const bool cut_k = a.top_k > 0 && a.top_k < a.vocab, cut_p = a.top_p < 1;
    const Logits row{a.logits + (size_t)m * a.vocab, a.vocab};
    const int begin = group_begin(a, group) + thread % 32, end = group_begin(a, group + 1);
    Slice* slices = a.parts + (size_t)m * a.slices;

    float largest = -INFINITY;
    for (int i = begin; i < end; i += 32) largest = fmaxf(largest, row.values[i]);
    largest = warp_max(largest);
    if (thread % 32 == 0) parts[thread / 32] = slices[slice].largest_of[thread / 32] = largest;
    if (thread < law_levels) at_level[thread] = 0;
    __syncthreads();
    for (float part : parts) largest = fmaxf(largest, part);

    const float one = 4294967040.0f / (law_threads * (a.vocab / (32 * a.slices * law_groups) + 2));  // no sum overflows
    const int top = level_of(largest, a.temperature);
    float sum = 0;
    for (int i = begin; i < end; i += 32) {
        const float logit = row.values[i];
        if (logit == -INFINITY) continue;
        const float w = weight(logit, largest, a.temperature);
        sum += w;
        const int below = top - level_of(logit, a.temperature);
        if ((cut_k || cut_p) && below < law_levels) atomicAdd(at_level + below, cut_k ? 1u : w > 0 ? (unsigned)(w * one) : 0u);
    }
    sum = block_sum(sum, parts);
    if (thread == 0) slices[slice].largest = largest, slices[slice].sum = sum;
    if (thread < law_levels) slices[slice].at_level[thread] = at_level[thread];
    if (!last_to_arrive(a.counters + m, a.slices)) return;

    __shared__ float largest_of[most_slices], sum_of[most_slices], worth[most_slices];
    if (thread < a.slices) largest_of[thread] = __ldcg(&slices[thread].largest), sum_of[thread] = __ldcg(&slices[thread].sum);
    __syncthreads();
    largest = -INFINITY;
    for (int s = 0; s < a.slices; s++) largest = fmaxf(largest, largest_of[s]);
    float total = 0, least = -INFINITY;
    for (int s = 0; s < a.slices; s++)
        if (sum_of[s] > 0 || sum_of[s] != sum_of[s]) total += sum_of[s] * weight(largest_of[s], largest, a.temperature);
    if ((cut_k || cut_p) && total == total) {  // NaN stays what it is
        __shared__ float held[most_held];
        __shared__ Whole histogram[bins];
        auto count = [](float) { return Whole(1); };
        auto units = [&](float logit) {
            const float w = logit >= least ? weight(logit, largest, a.temperature) : 0;
            return w > 0 ? (Whole)(w * 0x1p40f) : Whole(0);
        };
        auto kept_units = [&](const Logits& logits) {
            Whole sum = 0;
            for (int i = thread; i < logits.count; i += law_threads) sum += units(logits.values[i]);
            return block_sum(sum, whole_parts);
        };
        auto mass = [&](double whole) { return max((Whole)(a.top_p * whole), Whole(1)); };
        Whole goal = cut_k ? a.top_k : mass(total > 0 ? total * 0x1p40 : 0);

        if (thread < a.slices) worth[thread] = cut_k ? 1 : weight(largest_of[thread], largest, a.temperature) / one;
        __syncthreads();
        const float bound = bound_of(a, slices, largest_of, worth, cut_k ? a.top_k : (1 - 0.99f * (1 - a.top_p)) * total);
        Logits logits = bound > -INFINITY ? gather(a, slices, row, bound, held) : row;
        if ((cut_k ? logits.count : kept_units(logits)) < goal) logits = row;
        if (cut_k) {
            least = select(logits, largest, a.temperature, goal, count, histogram);
            goal = mass((double)kept_units(logits));
        }
        if (cut_p) least = select(logits, largest, a.temperature, goal, units, histogram);
        total = (float)((double)kept_units(logits) * 0x1p-40);
    }
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
