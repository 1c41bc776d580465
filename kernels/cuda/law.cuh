// From logits to a law: temperature, then top-k, then top-p. A law is never stored to be sampled from: a row's shape, three
// numbers, gives every probability from its logit.
#pragma once

#include "bf16.cuh"

namespace acctax {

struct Shape {
    float largest;  // logit
    float least;    // logit that is kept
    float scale;    // 1 / sum over the kept ones of e^((logit - largest) / temperature)
    float unused;
};

__device__ inline float weight(float logit, float largest, float temperature) {
    return expf((logit - largest) / temperature);
}

__device__ inline float probability(float logit, const Shape& shape, float temperature) {
    return logit < shape.least ? 0 : weight(logit, shape.largest, temperature) * shape.scale;  // NaN stays
}

}  // namespace acctax
