// How the packed formats become the fragments of A that a product takes. A lane's 16 bytes hold weights of two output
// features, g and g + 8 of its tile, and each product takes four weights of both: a[0], a[1] their first two, a[2], a[3]
// their last two. quant/panels.py lays the bits out so that few operations bring a pair of them into the halves of a word.
//
// Codes are exact in bf16, NF4's values but for their rounding to bf16. So is an E2M1 value times its block scale, three
// bits times four: there the scale goes into the weight. INT4's and NF4's scales have too many bits; they multiply sums.
#pragma once

#include "bf16.cuh"

namespace acctax {

__host__ __device__ constexpr uint32_t twice(uint32_t half) { return half | half << 16; }

// A word of four E4M3: the first two in the lower bytes of its halves, the other two in the upper ones. Moved under bf16's
// bits each is its value times 2^-120, subnormals included.
__device__ inline void decode_e4m3(uint32_t word, uint32_t& first, uint32_t& second) {
    auto moved = [](uint32_t upper) { return (upper & twice(0x8000)) | (upper >> 4 & twice(0x07f0)); };
    const uint32_t lift = twice(0x7b80);  // 2^120
    first = multiply_pair(moved(word << 8), lift);
    second = multiply_pair(moved(word), lift);
}

// Four integers as sign and magnitude: the first two have their magnitudes in the lower bytes of the halves, the others in
// the upper ones, and signs where the rotation brings them to the top. ±(128 + magnitude) less ±128.
__device__ inline void decode_int8(uint32_t word, uint32_t& first, uint32_t& second) {
    auto value = [](uint32_t bits) {
        const uint32_t one = twice(0x4300);  // 128
        return subtract_pair(merge(bits, twice(0x807f), one), merge(bits, twice(0x8000), one));
    };
    first = value(word);
    second = value(permute(word, 0, 0x0321));
}

// Eight E2M1, each pair's signs and magnitudes at the same distance from bf16's bits, but for the last pair's. Under bf16's
// bits each is its value times 2^-126, the subnormal 0.5 included.
__device__ inline void decode_e2m1(uint32_t word, uint32_t (&a)[4]) {
    const uint32_t bits = twice(0x81c0);
    a[0] = word & bits;
    a[1] = word << 3 & bits;
    a[2] = word << 6 & bits;
    a[3] = (word << 4 & twice(0x8000)) | (word >> 6 & twice(0x0180)) | (word >> 4 & twice(0x0040));
}

// Eight integers 0..15 that stand for -8..7.
__device__ inline void decode_int4(uint32_t word, uint32_t (&a)[4]) {
#pragma unroll
    for (int p = 0; p < 4; p++)
        a[p] = subtract_pair(merge(word >> 4 * p, twice(0x000f), twice(0x4300)), twice(0x4308));  // 128 + code, 136
}

// Eight indices of NF4's values, rounded to bf16. Their bytes are looked up in two tables of eight, and an index's highest
// bit chooses one of the two.
__device__ inline void decode_nf4(uint32_t word, uint32_t (&a)[4]) {
    constexpr uint32_t upper[4] = {0xbebfbfbf, 0x00bdbebe, 0x3e3e3e3d, 0x3f3f3f3e};
    constexpr uint32_t lower[4] = {0xca063280, 0x00ba3d92, 0xad7c25a3, 0x803910e2};
    const uint32_t index = word & 0x77777777, even = word << 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {  // 4 indices each
        const uint32_t mask = permute(word, even, half ? 0xbfae : 0x9d8c), at = half ? index >> 16 : index;
        auto look_up = [&](const uint32_t (&table)[4]) {
            const uint32_t negative = permute(table[0], table[1], at), positive = permute(table[2], table[3], at);
            return (positive & mask) | (negative & ~mask);
        };
        const uint32_t high = look_up(upper), low = look_up(lower);
        a[2 * half] = permute(low, high, 0x5140);
        a[2 * half + 1] = permute(low, high, 0x7362);
    }
}

// One format. `per_scale`: products under one block scale, for the formats whose sums are scaled.
template <Format f, int per_scale_ = 4>
struct Weights {
    static constexpr Format format = f;
    static constexpr int step = step_width(f), products = step / 16, per_scale = per_scale_;
    static constexpr bool folded = f == Format::nvfp4 || f == Format::mxfp4;
    static constexpr bool scaled = f == Format::int4 || f == Format::nf4;
    // A lane's weights of one feature are step / 4 neighbours, so that a row of x is read in wide loads, but for int4: there
    // each product takes 16 neighbours from its four lanes, so that a scale may serve as few.
    static constexpr bool strided = f == Format::int4;
    // Words of block scales that a lane reads for a step, for both features of all 4 tiles
    static constexpr int scale_words = folded ? 2 : f == Format::int4 ? 16 / per_scale : f == Format::nf4 ? 8 : 0;

    // Where these start, in words: spans are what a scale serves along K.
    __device__ static size_t scales_at(int panel, int steps, int step_index, int spans, int group, int g, int t) {
        if constexpr (f == Format::nvfp4) return (((size_t)panel * steps + step_index) * 32 + 4 * g + t) * 2;
        if constexpr (f == Format::mxfp4) return (((size_t)panel * steps + step_index) * 16 + 2 * g + t / 2) * 2;
        if constexpr (f == Format::nf4) return (((size_t)panel * steps + step_index) * 8 + g) * 8;
        const int span = per_scale < 4 ? step_index * (4 / per_scale) : step_index * 64 / group;
        return (((size_t)panel * spans + span) * 8 + g) * 4;  // int4
    }

    // The fragment of product j of tile `tile`.
    __device__ static void fragment(const uint4& codes, const uint32_t* scales, int tile, int j, uint32_t (&a)[4]) {
        const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
        if constexpr (f == Format::bf16) {
            for (int i = 0; i < 4; i++) a[i] = words[i];
        } else if constexpr (f == Format::fp8) {
            decode_e4m3(words[2 * j], a[0], a[2]), decode_e4m3(words[2 * j + 1], a[1], a[3]);
        } else if constexpr (f == Format::int8) {
            decode_int8(words[2 * j], a[0], a[2]), decode_int8(words[2 * j + 1], a[1], a[3]);
        } else if constexpr (f == Format::int4) {
            decode_int4(words[j], a);
        } else if constexpr (f == Format::nf4) {
            decode_nf4(words[j], a);
        } else {
            decode_e2m1(words[j], a);
            for (int r = 0; r < 2; r++) {
                const uint32_t scale = lifted(scales[tile / 2] >> (16 * (tile % 2) + 8 * r) & 0xff);
                a[r] = multiply_pair(a[r], scale), a[r + 2] = multiply_pair(a[r + 2], scale);
            }
        }
    }

    // A block scale times 2^118 in both halves: its byte is bf16's bits from a constant on, a multiplication and an addition.
    __device__ static uint32_t lifted(uint32_t code) {
        return f == Format::nvfp4 ? code * twice(0x0010) + twice(235 << 7) : code * twice(0x0080);
    }

    // The factor of a sum of feature g + 8r of a tile, over products `block` · per_scale and on.
    __device__ static float factor(const uint32_t* scales, int tile, int block, int r) {
        if constexpr (f == Format::nf4) return as_float(scales[2 * tile + r]);
        else return r ? second_of(scales[4 * block + tile]) : first_of(scales[4 * block + tile]);
    }
};

}  // namespace acctax
