#include "linear.cuh"

using namespace acctax;

// Into how many parts K is cut: as many as give each multiprocessor of the largest GPUs its four blocks, while every warp
// has two steps at least. A function of the weight's format and shape alone.
int acctax_cuda_linear_splits(int format, int N, int K) {
    constexpr int blocks = 4 * 148;
    const int panels = (N + panel_width - 1) / panel_width, step = step_width((Format)format);
    const int wanted = (blocks + panels - 1) / panels, most = (K + step - 1) / step / (2 * linear_warps);
    const int splits = wanted < most ? wanted : most;
    return splits < 1 ? 1 : splits;
}

int acctax_cuda_linear(const Linear* a, void* stream) {
    switch ((Format)a->format) {
        case Format::bf16: return launch_linear<Weights<Format::bf16>>(*a, stream);
        case Format::fp8: return launch_linear<Weights<Format::fp8>>(*a, stream);
        case Format::int8: return launch_linear<Weights<Format::int8>>(*a, stream);
        case Format::int4:
            if (a->group == 16) return launch_linear<Weights<Format::int4, 1>>(*a, stream);
            if (a->group == 32) return launch_linear<Weights<Format::int4, 2>>(*a, stream);
            return launch_linear<Weights<Format::int4, 4>>(*a, stream);
        case Format::nvfp4: return launch_linear<Weights<Format::nvfp4>>(*a, stream);
        case Format::mxfp4: return launch_linear<Weights<Format::mxfp4>>(*a, stream);
        default: return launch_linear<Weights<Format::nf4>>(*a, stream);
    }
}
