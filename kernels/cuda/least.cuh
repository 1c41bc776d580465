// The least logit that top-k or top-p keeps, found by one block: first the level at which enough lies, by what the slices
// of the row say of themselves, then the logit among those of that level.
//
// Nothing depends on the order of threads: slices' sums and what is compared within a level are whole numbers, and sums
// over slices and levels are made in a fixed order.
#pragma once

#include "law.cuh"

namespace acctax {

constexpr int law_threads = 32 * law_groups, bins = 2048;
constexpr float levels_per_unit = 11.541560f; // 8 / ln 2
constexpr int most_held = 4096;               // logits that a block holds at hand

using Whole = unsigned long long;

__device__ inline float from_ordered(uint32_t key) { return as_float(key >> 31 ? key & 0x7fffffff : ~key); }

// Levels of a row, or of a slice, counted from its largest logit down; what is beyond the last has the number law_levels.
// A cold law has them as wide as at temperature 1, so that top-k finds its logit within them.
struct Levels {
    float per_logit;
    int top;

    __device__ Levels(float largest, float temperature) : per_logit(levels_per_unit / fmaxf(temperature, 1)), top(height(largest)) {}
    __device__ int height(float logit) const { return (int)fminf(fmaxf(floorf(logit * per_logit), -0x1p29f), 0x1p29f); }
    __device__ int of(float logit) const { return min(top - height(logit), law_levels); }
};

struct Logits {
    const float* values;
    int count;
};

// The first level down to which lies as much as the goal; law_levels if none.
__device__ inline int level_reaching(double goal, const double* down_to) {
    __shared__ int found;
    if (threadIdx.x == 0) found = law_levels;
    __syncthreads();
    if (threadIdx.x < law_levels && down_to[threadIdx.x] >= goal) atomicMin(&found, (int)threadIdx.x);
    __syncthreads();
    return found;
}

__device__ inline double above(const double* down_to, int level) { return level > 0 ? down_to[level - 1] : 0; }

__device__ inline int group_begin(const Law& a, int group) {
    return (int)((int64_t)a.vocab * group / (a.slices * law_groups));
}

// The row's logits of one level, in no order, in `held`; or the row itself, if they are too many for that. `scratch` is
// shared memory of `bins` words.
__device__ inline Logits gather(const Law& a, const Slice* slices, const Logits& row, const Levels& levels, int level,
                                float* held, Whole* scratch) {
    constexpr int at_once = 8;    // loads of a group, of two groups, before the first is used
    int2* spans = (int2*)scratch; // of the groups that reach the level
    __shared__ int groups, count;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();  // what `held` and `scratch` held was read
    if (threadIdx.x == 0) groups = count = 0;
    __syncthreads();
    for (int g = threadIdx.x; g < a.slices * law_groups; g += law_threads)
        if (levels.of(__ldcg(slices[g / law_groups].largest_of + g % law_groups)) <= level)
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
                if (logits[j] > -INFINITY && levels.of(logits[j]) == level) {
                    const int n = atomicAdd(&count, 1);
                    if (n < most_held) held[n] = logits[j];
                }
        }
    __syncthreads();
    return count <= most_held ? Logits{held, count} : row;
}

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

// The first logit, from the largest down, at which the running sum of `amount` reaches the goal, or the last that has an
// amount; -inf where none has. Its bits are found 11, 11 and 10 at a time. `scratch` is shared memory of `bins` words.
template <class Amount>
__device__ inline float select(const Logits& logits, Whole goal, const Amount& amount, Whole* scratch) {
    uint32_t key = 0;
    for (int shift = 21; shift >= -1; shift -= 11) {
        const int from = shift < 0 ? 0 : shift, width = shift < 0 ? 10 : 11;
        for (int i = threadIdx.x; i < bins; i += law_threads) scratch[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < logits.count; i += law_threads) {
            const uint32_t bits = ordered(logits.values[i]);
            if ((uint64_t)bits >> (from + width) != (uint64_t)key >> (from + width)) continue;
            const Whole here = amount(logits.values[i]);
            const uint32_t digit = bits >> from & ((1u << width) - 1);
            if (here) atomicAdd(scratch + ((1u << width) - 1 - digit), here);  // the largest first
        }
        __syncthreads();
        const int bin = reach(scratch, goal);
        if (bin < 0) return -INFINITY;
        key |= ((1u << width) - 1 - bin) << from;
    }
    return from_ordered(key);
}

// The least logit that is kept of a row whose weights sum to `total`, which becomes the sum of those kept. For each slice:
// its largest logit, and what its weights are worth in the row's, [slices] of shared memory.
__device__ inline float cut(const Law& a, const Slice* slices, const Logits& row, float largest, const float* largest_of,
                            const float* worth, float& total) {
    const int thread = threadIdx.x;
    const bool cut_k = a.top_k > 0 && a.top_k < a.vocab, cut_p = a.top_p < 1;
    constexpr int slices_at_once = 8;  // of which counts are read before the first is used
    __shared__ double count_to[law_levels], mass_to[law_levels], parts[law_groups];  // down to each level
    __shared__ float held[most_held];
    __shared__ Whole scratch[bins];
    const Levels levels(largest, a.temperature);
    double here = 0, mass_here = 0;
    if (thread < law_levels)
        for (int first = 0; first < a.slices; first += slices_at_once) {
            unsigned count[slices_at_once], high[slices_at_once], low[slices_at_once];
#pragma unroll
            for (int j = 0; j < slices_at_once; j++) {
                const int s = first + j, level = s < a.slices ? thread - levels.of(largest_of[s]) : -1;
                count[j] = level >= 0 && cut_k ? __ldcg(slices[s].count + level) : 0;
                high[j] = level >= 0 ? __ldcg(slices[s].high + level) : 0;
                low[j] = level >= 0 ? __ldcg(slices[s].low + level) : 0;
            }
#pragma unroll
            for (int j = 0; j < slices_at_once; j++) {
                const Whole units = ((Whole)high[j] << law_low_bits) + low[j];
                here += count[j];
                if (units) mass_here += (double)units * 0x1p-36 * worth[first + j];
            }
        }
    here = running_sum(here, parts), mass_here = running_sum(mass_here, parts);
    if (thread < law_levels) count_to[thread] = here, mass_to[thread] = mass_here;

    float least = -INFINITY;
    int level = law_levels + 1;  // of the least logit that is kept
    Logits logits = row;         // of the level
    auto in_level = [&](float logit) { return levels.of(logit) == level ? Whole(1) : Whole(0); };
    auto units = [&](float logit) {
        const float w = logit >= least && in_level(logit) ? weight(logit, largest, a.temperature) : 0;
        return w > 0 ? (Whole)(w * 0x1p40f) : Whole(0);
    };
    auto kept = [&] {
        Whole sum = 0;
        for (int i = thread; i < logits.count; i += law_threads) sum += units(logits.values[i]);
        return above(mass_to, level) + (double)block_sum(sum, scratch) * 0x1p-40;
    };
    double mass = total;
    if (cut_k) {
        level = level_reaching(a.top_k, count_to);
        logits = gather(a, slices, row, levels, level, held, scratch);
        least = select(logits, a.top_k - (Whole)above(count_to, level), in_level, scratch);
        mass = kept();
    }
    if (cut_p) {
        const double goal = a.top_p * mass;
        const int reached = min(level_reaching(goal, mass_to), level);
        if (reached != level) {
            level = reached;
            logits = gather(a, slices, row, levels, level, held, scratch);
        }
        const double rest = (goal - above(mass_to, level)) * 0x1p40;
        least = select(logits, rest > 1 ? (Whole)rest : 1, units, scratch);
        mass = kept();
    }
    total = (float)mass;
    return least;
}

}  // namespace acctax
