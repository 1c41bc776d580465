// Rotary, cache append and causal attention in one launch.
//
// A block answers up to 16 queries (rows times the heads that share a key head) over one span of 128 positions. It rotates
// its queries, appends the new rows that fall into its span (blocks of other queries write the same bytes), and leaves
// each query's largest score, the sum of its weights and their mix of values. The last block of these queries joins the
// spans. Spans start at multiples of 128 whatever the call is, and a row's are joined in ascending order: neither the rows
// beside it nor the length of the call changes its bits.
#include "bf16.cuh"

namespace acctax {

constexpr int attend_threads = attend_span, attend_warps = attend_threads / 32;
constexpr int most_D = 256;

struct Place {
    int kv_head, group, first_query, queries;  // of this block, counted row by row, heads within
    int position;                              // of row 0
    int first_row, last_row;                   // of these queries
    int heads;                                 // that share the key head
    int first_span, last_span;                 // in sight of these rows
};

__device__ inline int sight(const Attend& a, int position) {  // the first position that this one sees
    return a.window && position >= a.window ? position - a.window + 1 : 0;
}

__device__ inline Place place(const Attend& a) {
    Place p;
    p.kv_head = blockIdx.y, p.group = blockIdx.z, p.heads = a.H / a.Hkv;
    p.first_query = p.group * attend_queries;
    p.queries = min(attend_queries, a.M * p.heads - p.first_query);
    p.position = a.position + (a.moved ? *a.moved : 0);
    p.first_row = p.first_query / p.heads, p.last_row = (p.first_query + p.queries - 1) / p.heads;
    p.first_span = sight(a, p.position + p.first_row) / attend_span;
    p.last_span = (p.position + p.last_row) / attend_span;
    return p;
}

// Keys stand in blocks of 16 positions and in words of two elements: where the words of this one start, 16 apart.
__device__ inline uint32_t* key_at(const Attend& a, int kv_head, int position) {
    const size_t blocks = (a.max_len + 15) / 16, block = kv_head * blocks + position / 16;
    return (uint32_t*)a.k_cache + block * a.D / 2 * 16 + position % 16;
}

// One head, by one warp: normed if there is a norm, its pairs (i, i + D/2) turned by the angles of `position`. Elements go
// to `put`.
template <class Put>
__device__ inline void rotate(const Attend& a, const bf16* x, const float* norm, int position, const Put& put) {
    const int lane = threadIdx.x % 32, half = a.D / 2;
    float inverse = 1;
    if (norm) {
        float squares = 0;
        for (int i = lane; i < a.D; i += 32) squares = fmaf(load(x + i), load(x + i), squares);
        inverse = 1 / sqrtf(warp_sum(squares) / a.D + a.eps);
    }
    const float *cos = a.cos + (size_t)position * half, *sin = a.sin + (size_t)position * half;
    for (int i = lane; i < half; i += 32) {
        float p = load(x + i), q = load(x + half + i);
        if (norm) p *= inverse * norm[i], q *= inverse * norm[half + i];
        put(i, p * cos[i] - q * sin[i]);
        put(half + i, q * cos[i] + p * sin[i]);
    }
}

// The new rows within this block's span, to the caches.
__device__ inline void append(const Attend& a, const Place& p, int begin, int end) {
    const int width = (a.H + 2 * a.Hkv) * a.D, lane = threadIdx.x % 32;
    for (int at = max(begin, p.position) + threadIdx.x / 32; at < min(end, p.position + a.M); at += attend_warps) {
        const bf16* k = (const bf16*)a.qkv + (size_t)(at - p.position) * width + (a.H + p.kv_head) * a.D;
        const bf16* v = k + a.Hkv * a.D;
        bf16* key = (bf16*)key_at(a, p.kv_head, at);
        rotate(a, k, a.k_norm, at, [&](int i, float value) { key[i / 2 * 32 + i % 2] = to_bf16(value); });
        bf16* to = (bf16*)a.v_cache + ((size_t)p.kv_head * a.max_len + at) * a.D;
        for (int i = lane; i < a.D; i += 32) to[i] = v[i];
    }
}

// A query's part of one span: its mix of values [D], the largest score, the sum of weights.
__device__ inline float* part_of(const Attend& a, const Place& p, int span, int query) {
    const size_t block = ((size_t)p.kv_head * gridDim.z + p.group) * a.chunks + span;
    return a.partial + (block * attend_queries + query) * (a.D + 2);
}

// The last block: each query's spans, joined.
__device__ inline void join(const Attend& a, const Place& p) {
    const int lane = threadIdx.x % 32;
    for (int r = threadIdx.x / 32; r < p.queries; r += attend_warps) {
        const int from = p.first_span / 32 * 32;  // a span's lane depends on the span alone
        float most = -INFINITY, total = 0;
        for (int s = from + lane; s <= p.last_span; s += 32)
            if (s >= p.first_span) most = fmaxf(most, __ldcg(part_of(a, p, s, r) + a.D));
        most = warp_max(most);
        for (int s = from + lane; s <= p.last_span; s += 32) {
            if (s < p.first_span) continue;
            const float* part = part_of(a, p, s, r);
            total += expf(__ldcg(part + a.D) - most) * __ldcg(part + a.D + 1);
        }
        total = warp_sum(total);
        const int query = p.first_query + r, m = query / p.heads, head = p.kv_head * p.heads + query % p.heads;
        bf16* y = (bf16*)a.y + ((size_t)m * a.H + head) * a.D;
        for (int i = lane; i < a.D; i += 32) {
            float sum = 0;
            for (int s = p.first_span; s <= p.last_span; s++) {
                const float* part = part_of(a, p, s, r);
                sum = fmaf(expf(__ldcg(part + a.D) - most), __ldcg(part + i), sum);
            }
            y[i] = to_bf16(sum / total);
        }
    }
}

static __global__ void __launch_bounds__(attend_threads) attend_kernel(Attend a) {
    // queries first, f32 [16][D]; later what the slices of the span add up to, f32 [slices][16][D], slices · D <= 256
    __shared__ __align__(16) float shared[attend_queries * most_D];
    __shared__ __align__(16) float weights[attend_queries][attend_span];  // first scores
    __shared__ float largest[attend_queries], whole[attend_queries];
    const Place p = place(a);
    const int span = blockIdx.x, thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    if (span < p.first_span || span > p.last_span) return;
    const int begin = span * attend_span, end = min(begin + attend_span, p.position + p.last_row + 1);

    for (int r = warp; r < p.queries; r += attend_warps) {
        const int query = p.first_query + r, m = query / p.heads, head = p.kv_head * p.heads + query % p.heads;
        const bf16* q = (const bf16*)a.qkv + ((size_t)m * (a.H + 2 * a.Hkv) + head) * a.D;
        rotate(a, q, a.q_norm, p.position + m, [&](int i, float value) { shared[r * a.D + i] = value; });
    }
    append(a, p, begin, begin + attend_span);
    __syncthreads();

    // A thread scores one key: no sum crosses threads.
    const int at = begin + thread;
    float score[attend_queries] = {};
    if (at < end) {
        const uint32_t* key = key_at(a, p.kv_head, at);  // a warp's lanes read neighbours
        for (int i = 0; i < a.D; i += 8) {
            float k[8];
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const uint32_t word = key[(i / 2 + w) * 16];
                k[2 * w] = first_of(word), k[2 * w + 1] = second_of(word);
            }
#pragma unroll
            for (int r = 0; r < attend_queries; r++) {
                if (r >= p.queries) break;
                const float4* q = (const float4*)(shared + r * a.D + i);
                const float4 x = q[0], y = q[1];
                float s = score[r];
                s = fmaf(x.x, k[0], s), s = fmaf(x.y, k[1], s), s = fmaf(x.z, k[2], s), s = fmaf(x.w, k[3], s);
                s = fmaf(y.x, k[4], s), s = fmaf(y.y, k[5], s), s = fmaf(y.z, k[6], s), s = fmaf(y.w, k[7], s);
                score[r] = s;
            }
        }
    }
    auto visible = [&](int r, int position) {
        const int row = p.position + (p.first_query + r) / p.heads;
        return position <= row && position >= sight(a, row);
    };
#pragma unroll
    for (int r = 0; r < attend_queries; r++)
        if (r < p.queries) weights[r][thread] = visible(r, at) ? score[r] * a.scale : -INFINITY;
    __syncthreads();

    for (int r = warp; r < p.queries; r += attend_warps) {
        float most = -INFINITY, sum = 0;
        for (int i = lane; i < attend_span; i += 32) most = fmaxf(most, weights[r][i]);
        most = warp_max(most);
        for (int i = lane; i < attend_span; i += 32) {
            const float weight = visible(r, begin + i) ? expf(weights[r][i] - most) : 0;
            weights[r][i] = weight, sum += weight;
        }
        sum = warp_sum(sum);
        if (lane == 0) largest[r] = most, whole[r] = sum;
    }
    __syncthreads();

    // A thread mixes two columns of the values, in one of the slices: every so many fours of positions.
    const int pairs = a.D / 2, slices = attend_threads / pairs, slice = thread / pairs, column = thread % pairs * 2;
    float mix[attend_queries][2] = {};
    if (slice < slices) {
        const bf16* values = (const bf16*)a.v_cache + ((size_t)p.kv_head * a.max_len + begin) * a.D + column;
        const int seen_by_all = sight(a, p.position + p.last_row), seen_until = p.position + p.first_row;
        for (int i = 4 * slice; begin + i < end; i += 4 * slices) {
            uint32_t value[4];
#pragma unroll
            for (int j = 0; j < 4; j++) value[j] = begin + i + j < end ? *(const uint32_t*)(values + (i + j) * a.D) : 0;
            const bool all = begin + i >= seen_by_all && begin + i + 3 <= seen_until;
#pragma unroll
            for (int r = 0; r < attend_queries; r++) {
                if (r >= p.queries) break;
                const float4 four = *(const float4*)&weights[r][i];
                const float weight[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (!all && !visible(r, begin + i + j)) continue;  // a weight of 0 would let NaN through
                    mix[r][0] = fmaf(weight[j], first_of(value[j]), mix[r][0]);
                    mix[r][1] = fmaf(weight[j], second_of(value[j]), mix[r][1]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < attend_queries; r++)
        if (r < p.queries && slice < slices) {
            float* out = shared + (slice * attend_queries + r) * a.D + column;
            out[0] = mix[r][0], out[1] = mix[r][1];
        }
    __syncthreads();

    for (int i = thread; i < p.queries * a.D; i += attend_threads) {
        float sum = 0;
        for (int s = 0; s < slices; s++) sum += shared[s * attend_queries * a.D + i];
        part_of(a, p, span, i / a.D)[i % a.D] = sum;
    }
    if (thread < p.queries) {
        float* part = part_of(a, p, span, thread);
        part[a.D] = largest[thread], part[a.D + 1] = whole[thread];
    }
    unsigned* counter = a.counters + blockIdx.y * gridDim.z + blockIdx.z;
    if (last_to_arrive(counter, p.last_span - p.first_span + 1)) join(a, p);
}

}  // namespace acctax

using namespace acctax;

static int query_groups(const Attend& a) { return (a.M * (a.H / a.Hkv) + attend_queries - 1) / attend_queries; }

size_t acctax_cuda_attend_scratch(const Attend* a) {
    return (size_t)a->Hkv * query_groups(*a) * a->chunks * attend_queries * (a->D + 2);
}

int acctax_cuda_attend(const Attend* a, void* stream) {
    return launch(attend_kernel, dim3(a->chunks, a->Hkv, query_groups(*a)), attend_threads, stream, *a);
}
