// Each row's shape (law.cuh). Slices of a row, a block each, find its largest logit and the sum of its weights; the last
// block of the row, where top-k or top-p is asked for, finds the least logit that is kept.
//
// Sums that are compared are whole numbers, weights in units of 2^-40: they do not depend on the order of additions. Logits
// equal to the least one are all kept.
#include "law.cuh"

namespace acctax {

constexpr int law_threads = 512, bins = 2048;
constexpr float per_bin = 1.0f / 64;  // of the distance to the largest logit over the temperature, in the first pass

using Whole = unsigned long long;

__device__ inline uint32_t ordered(float value) {
    const uint32_t bits = as_bits(value + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000;
}

__device__ inline float from_ordered(uint32_t key) { return as_float(key >> 31 ? key & 0x7fffffff : ~key); }

struct Row {
    const float* logits;
    int vocab;
    float largest, temperature;
};

// The first bin at which the running sum reaches the goal, of which what lies before the bin is taken away; the last bin
// with anything in it, if none does.
__device__ inline int reach(const Whole* histogram, Whole& goal) {
    __shared__ Whole before[law_threads];
    __shared__ int found;
    constexpr int each = bins / law_threads;
    const int thread = threadIdx.x;
    Whole own = 0;
    for (int i = 0; i < each; i++) own += histogram[thread * each + i];
    Whole running = own;
    before[thread] = running;
    if (thread == 0) found = -1;
    for (int distance = 1; distance < law_threads; distance *= 2) {
        __syncthreads();
        const Whole left = thread >= distance ? before[thread - distance] : 0;
        __syncthreads();
        before[thread] = running += left;
    }
    __syncthreads();
    const Whole all = before[law_threads - 1], wanted = goal < all ? goal : all;
    Whole sum = running - own;
    if (sum < wanted && wanted <= running)
        for (int i = 0; i < each; i++) {
            if (sum < wanted && wanted <= sum + histogram[thread * each + i]) found = thread * each + i, before[0] = sum;
            sum += histogram[thread * each + i];
        }
    __syncthreads();
    goal = wanted - before[0];
    const int bin = found;
    __syncthreads();
    return bin;
}

// The first logit, from the largest down, at which the running sum of `amount` reaches the goal. A first pass bins the
// logits by their distance to the largest, which spreads them; three more find the bits among those of one bin.
template <class Amount>
__device__ inline float select(const Row& row, Whole goal, const Amount& amount) {
    __shared__ Whole histogram[bins];
    auto far = [&](float logit) {
        const float distance = (row.largest - logit) / row.temperature / per_bin;
        return distance < bins - 1 ? (int)distance : bins - 1;
    };
    auto fill = [&](const auto& bin_of) {
        for (int i = threadIdx.x; i < bins; i += law_threads) histogram[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < row.vocab; i += law_threads) {
            const float logit = row.logits[i];
            const int bin = bin_of(logit);
            if (bin >= 0) {
                const Whole a = amount(logit);
                if (a) atomicAdd(histogram + bin, a);
            }
        }
        __syncthreads();
    };
    fill(far);
    const int coarse = reach(histogram, goal);
    uint32_t key = 0;
    for (int shift = 21; shift >= -1; shift -= 11) {  // 11 bits, 11 bits, 10 bits
        const int from = shift < 0 ? 0 : shift, width = shift < 0 ? 10 : 11;
        fill([&](float logit) {
            const uint32_t bits = ordered(logit);
            if (far(logit) != coarse || (uint64_t)bits >> (from + width) != (uint64_t)key >> (from + width)) return -1;
            return (int)((1u << width) - 1 - (bits >> from & ((1u << width) - 1)));  // the largest first
        });
        const uint32_t digit = (1u << width) - 1 - reach(histogram, goal);
        key |= digit << from;
    }
    return from_ordered(key);
}

static __global__ void __launch_bounds__(law_threads) law_kernel(Law a) {
    __shared__ float parts[law_threads / 32];
    __shared__ Whole whole_parts[law_threads / 32];
    const int slice = blockIdx.x, m = blockIdx.y, thread = threadIdx.x;
    const Row row{a.logits + (size_t)m * a.vocab, a.vocab, 0, a.temperature};
    const int begin = (int64_t)a.vocab * slice / a.slices, end = (int64_t)a.vocab * (slice + 1) / a.slices;

    float largest = -INFINITY;
    for (int i = begin + thread; i < end; i += law_threads) largest = fmaxf(largest, row.logits[i]);
    largest = warp_max(largest);
    if (thread % 32 == 0) parts[thread / 32] = largest;
    __syncthreads();
    for (float part : parts) largest = fmaxf(largest, part);
    float sum = 0;
    for (int i = begin + thread; i < end; i += law_threads)
        if (row.logits[i] != -INFINITY) sum += weight(row.logits[i], largest, a.temperature);
    sum = block_sum(sum, parts);
    float2* slices = (float2*)a.parts + (size_t)m * a.slices;
    if (thread == 0) slices[slice] = make_float2(largest, sum);
    if (!last_to_arrive(a.counters + m, a.slices)) return;

    __shared__ float2 slice_parts[most_slices];
    if (thread < a.slices) slice_parts[thread] = __ldcg(slices + thread);
    __syncthreads();
    largest = -INFINITY;
    for (int s = 0; s < a.slices; s++) largest = fmaxf(largest, slice_parts[s].x);
    float total = 0, least = -INFINITY;
    for (int s = 0; s < a.slices; s++) {
        const float2 part = slice_parts[s];
        if (part.y > 0 || part.y != part.y) total += part.y * weight(part.x, largest, a.temperature);
    }
    const Row whole{row.logits, a.vocab, largest, a.temperature};
    auto units = [&](float logit) {
        return logit >= least ? (Whole)(weight(logit, largest, a.temperature) * 0x1p40f) : Whole(0);
    };
    auto kept_units = [&] {
        Whole sum = 0;
        for (int i = thread; i < a.vocab; i += law_threads) sum += units(row.logits[i]);
        return block_sum(sum, whole_parts);
    };
    const bool cut_k = a.top_k > 0 && a.top_k < a.vocab, cut_p = a.top_p < 1;
    if (cut_k) least = select(whole, a.top_k, [](float) { return Whole(1); });
    if (cut_p) {
        const Whole goal = (Whole)((double)a.top_p * (double)kept_units());
        least = select(whole, goal > 0 ? goal : 1, units);
    }
    if (cut_k || cut_p) total = (float)((double)kept_units() * 0x1p-40);
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
