// The least logit that top-k or top-p keeps, found by one block from what the slices of a row say of themselves.
//
// Sums that are compared are whole numbers, probabilities in units of 2^-40: they do not depend on the order of additions.
#pragma once

#include "law.cuh"

namespace acctax {

constexpr int law_threads = 32 * law_groups, bins = 2048;
constexpr float per_bin = 1.0f / 64;          // of the distance to the largest logit over the temperature, in the first pass
constexpr float levels_per_unit = 11.541560f; // 8 / ln 2, of a logit over the temperature
constexpr int most_held = 4096;               // logits that a block holds at hand

using Whole = unsigned long long;

__device__ inline uint32_t ordered(float value) {
    const uint32_t bits = as_bits(value + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000;
}

__device__ inline float from_ordered(uint32_t key) { return as_float(key >> 31 ? key & 0x7fffffff : ~key); }

__device__ inline int level_of(float logit, float temperature) {
    return (int)fminf(fmaxf(floorf(logit / temperature * levels_per_unit), -0x1p29f), 0x1p29f);
}

struct Logits {
    const float* values;
    int count;
};

// The first bin at which the running sum reaches the goal, of which what lies before the bin is taken away; the last bin
// with anything in it, if none does.
__device__ inline int reach(const Whole* histogram, Whole& goal) {
    __shared__ Whole parts[law_threads / 32], all, rest;
    __shared__ int found;
    constexpr int each = bins / law_threads;
    const int thread = threadIdx.x;
    Whole own = 0;
    for (int i = 0; i < each; i++) own += histogram[thread * each + i];
    const Whole running = running_sum(own, parts);
    if (thread == 0) found = -1, rest = 0;
    if (thread == law_threads - 1) all = running;
    __syncthreads();
    const Whole wanted = goal < all ? goal : all;
    Whole sum = running - own;
    if (sum < wanted && wanted <= running)
        for (int i = 0; i < each; i++) {
            const Whole here = histogram[thread * each + i];
            if (sum < wanted && wanted <= sum + here) found = thread * each + i, rest = wanted - sum;
            sum += here;
        }
    __syncthreads();
    goal = rest;
    return found;
}

// The first logit, from the largest down, at which the running sum of `amount` reaches the goal. `histogram` is shared
// memory, [bins]. A first pass bins the logits by their distance to the largest, which spreads them; three
// more find the bits among those of one bin.
template <class Amount>
__device__ inline float select(const Logits& logits, float largest, float temperature, Whole goal, const Amount& amount,
                               Whole* histogram) {
    auto far = [&](float logit) {
        const float distance = (largest - logit) / temperature / per_bin;
        return distance < bins - 1 ? (int)distance : bins - 1;
    };
    auto fill = [&](const auto& bin_of) {
        for (int i = threadIdx.x; i < bins; i += law_threads) histogram[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < logits.count; i += law_threads) {
            const float logit = logits.values[i];
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

// A logit from which on about as much lies as is wanted, or a little more, as the slices counted it: `worth` is what one of
// a slice's counts stands for. -inf: they did not count so far down.
__device__ inline float bound_of(const Law& a, const Slice* slices, const float* largest, const float* worth, float wanted) {
    __shared__ float parts[law_threads / 32];
    __shared__ int tops[most_slices], found;
    const int thread = threadIdx.x;
    if (thread == 0) found = law_levels;
    if (thread < a.slices) tops[thread] = level_of(largest[thread], a.temperature);
    __syncthreads();
    int top = tops[0];
    for (int s = 1; s < a.slices; s++) top = max(top, tops[s]);
    float here = 0;  // at the level `thread` below the highest
    if (thread < law_levels)
        for (int s = 0; s < a.slices; s++) {
            const int below = thread - (top - tops[s]);
            if (below >= 0) here += __ldcg(slices[s].at_level + below) * worth[s];
        }
    const float running = running_sum(here, parts);
    if (thread < law_levels && running >= wanted) atomicMin(&found, thread);
    __syncthreads();
    return found < law_levels ? (top - found - 0.01f) / levels_per_unit * a.temperature : -INFINITY;
}

__device__ inline int group_begin(const Law& a, int group) {
    return (int)((int64_t)a.vocab * group / (a.slices * law_groups));
}

// The row's logits from the bound on, in no order, in `held`; or the row itself, if they are too many for that.
__device__ inline Logits gather(const Law& a, const Slice* slices, const Logits& row, float bound, float* held) {
    constexpr int at_once = 8;  // loads of a group, of two groups, before the first is used
    __shared__ int2 spans[most_slices * law_groups];  // of the groups with any
    __shared__ int groups, count;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) groups = count = 0;
    __syncthreads();
    for (int g = threadIdx.x; g < a.slices * law_groups; g += law_threads)
        if (__ldcg(slices[g / law_groups].largest_of + g % law_groups) >= bound)
            spans[atomicAdd(&groups, 1)] = make_int2(group_begin(a, g), group_begin(a, g + 1));
    __syncthreads();
    const int widest = a.vocab / (a.slices * law_groups) + 1;
    for (int first = warp; first < groups; first += 2 * law_groups)
        for (int i = lane; i < widest; i += 32 * at_once) {
            float logits[2 * at_once];
#pragma unroll
            for (int j = 0; j < 2 * at_once; j++) {
                const int g = first + j / at_once * law_groups;
                const int2 span = g < groups ? spans[g] : make_int2(0, 0);
                const int at = span.x + i + j % at_once * 32;
                logits[j] = at < span.y ? row.values[at] : -INFINITY;
            }
#pragma unroll
            for (int j = 0; j < 2 * at_once; j++)
                if (logits[j] >= bound) {
                    const int n = atomicAdd(&count, 1);
                    if (n < most_held) held[n] = logits[j];
                }
        }
    __syncthreads();
    return count <= most_held ? Logits{held, count} : row;
}

}  // namespace acctax
