#include "dispatch.h"

#include <atomic>
#include <cstring>

namespace acctax {
namespace {

#if defined(__x86_64__)
#define RUNS(feature) __builtin_cpu_supports(feature)
#else
#define RUNS(feature) false
#endif

const Kernels* runnable(const char* name) {
    const bool avx2 = RUNS("avx2") && RUNS("fma");
    const bool avx512 = avx2 && RUNS("avx512f") && RUNS("avx512bw") && RUNS("avx512dq") && RUNS("avx512vl");
    const bool avx512bf16 = avx512 && RUNS("avx512bf16") && RUNS("avx512vbmi") && RUNS("avx512vnni");
    const Kernels* best_first[] = {
        avx512bf16 ? kernels_avx512bf16() : nullptr,
        avx512 ? kernels_avx512() : nullptr,
        avx2 ? kernels_avx2() : nullptr,
        kernels_scalar(),
    };
    for (const Kernels* k : best_first)
        if (k && (!*name || !std::strcmp(name, k->isa))) return k;
    return nullptr;
}

std::atomic<const Kernels*> selected{runnable("")};

}  // namespace

const Kernels& kernels() { return *selected.load(std::memory_order_relaxed); }

}  // namespace acctax

const char* acctax_select_isa(const char* name) {
    const acctax::Kernels* k = acctax::runnable(name);
    if (k) acctax::selected.store(k);
    return k ? k->isa : nullptr;
}
