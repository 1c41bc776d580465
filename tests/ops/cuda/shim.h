// CUDA source on a CPU, for tests: this header goes in front of a .cu file, and a C++ compiler takes it.
//
// Blocks run one after the other, their threads as fibers that change only where they wait: at __syncthreads and at what a
// warp does together. The next to run is drawn at random (shim_seed), blocks as well, so that what depends on an order
// comes out wrong. By an odd seed they keep pace; by an even one a warp may run far ahead of the others, which is what
// shows that a barrier is missing. Where nobody can go on, the launch says who waits for what.
#pragma once

#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__  // the sanitizer is told which stack is in use
#include <sanitizer/common_interface_defs.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim(1), gridDim(1);
using std::max;
using std::min;

namespace shim {

constexpr int no_progress = 702;  // CUDA's code for a launch that took too long
constexpr size_t stack_bytes = 1 << 16;

inline uint64_t seed = 0;    // 0: threads and blocks in their own order
inline unsigned steady = 1;  // so many changes, in the mean, for one that goes to another than who was made ready last
inline std::string error;

inline unsigned random(unsigned n) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (unsigned)(seed % n);
}

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool waits;        // for its warp
    unsigned mask;     // whom it waits for
    uint64_t given;    // to its warp
};

struct Block {
    std::vector<Fiber> fibers;
    std::vector<uint64_t> taken;  // what each lane gave when its warp last met
    std::vector<int> ready, at_barrier;
    int running, live;
    ucontext_t scheduler;
    void (*body)(const void*);
    const void* arguments;
};
inline Block block;

inline void place(int i) {
    block.running = i;
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
}

// From one stack to another; `leaves` for good.
inline void change(ucontext_t& from, ucontext_t& to, bool leaves = false) {
#ifdef __SANITIZE_ADDRESS__
    void* kept = nullptr;
    __sanitizer_start_switch_fiber(leaves ? nullptr : &kept, to.uc_stack.ss_sp, to.uc_stack.ss_size);
    swapcontext(&from, &to);
    __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#else
    swapcontext(&from, &to);
#endif
}

inline void wait() {
    const int me = block.running;
    change(block.fibers[me].context, block.scheduler);
    place(me);
}

inline void open_barrier() {
    if ((int)block.at_barrier.size() < block.live || !block.live) return;
    block.ready.insert(block.ready.end(), block.at_barrier.begin(), block.at_barrier.end());
    block.at_barrier.clear();
}

inline void barrier() {
    block.at_barrier.push_back(block.running);
    open_barrier();
    wait();
}

// All lanes of the mask meet, each with a value; returns theirs.
inline const uint64_t* meet(unsigned mask, uint64_t given) {
    const int me = block.running, first = me / 32 * 32;
    Fiber* lanes = &block.fibers[first];
    block.fibers[me].waits = true, block.fibers[me].mask = mask, block.fibers[me].given = given;
    bool complete = true;
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) complete = complete && first + i < (int)block.fibers.size() && lanes[i].waits && lanes[i].mask == mask;
    if (complete)
        for (int i = 0; i < 32; i++)
            if (mask >> i & 1) {
                block.taken[first + i] = lanes[i].given, lanes[i].waits = false;
                block.ready.push_back(first + i);
            }
    wait();
    return &block.taken[first];
}

inline void thread_main() {
#ifdef __SANITIZE_ADDRESS__
    ucontext_t& scheduler = block.scheduler;  // its stack is known to whoever comes from it
    __sanitizer_finish_switch_fiber(nullptr, (const void**)&scheduler.uc_stack.ss_sp, &scheduler.uc_stack.ss_size);
#endif
    block.body(block.arguments);
    block.live--;
    open_barrier();
    change(block.fibers[block.running].context, block.scheduler, true);
}

inline size_t next_ready() {
    const size_t count = block.ready.size();
    return seed && random(steady) == 0 ? random(count) : count - 1;
}

inline int run_block(int threads) {
    if ((int)block.fibers.size() != threads) block.fibers = std::vector<Fiber>(threads);
    block.taken.assign((threads + 31) / 32 * 32, 0);
    block.ready.clear(), block.at_barrier.clear();
    block.live = threads;
    for (int i = threads; i--;) {
        Fiber& fiber = block.fibers[i];
        if (!fiber.stack) fiber.stack.reset(new char[stack_bytes]);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get(), fiber.context.uc_stack.ss_size = stack_bytes;
        fiber.context.uc_link = nullptr, fiber.waits = false;
        makecontext(&fiber.context, thread_main, 0);
        block.ready.push_back(i);
    }
    while (!block.ready.empty()) {
        std::swap(block.ready.back(), block.ready[next_ready()]);
        const int next = block.ready.back();
        block.ready.pop_back();
        place(next);
        change(block.scheduler, block.fibers[next].context);
    }
    if (!block.live) return 0;
    int in_warps = 0;
    for (const Fiber& fiber : block.fibers) in_warps += fiber.waits;
    error = "block " + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) +
            " stands still: " + std::to_string(block.at_barrier.size()) + " threads wait at __syncthreads, " +
            std::to_string(in_warps) + " for their warp, " + std::to_string(threads - block.live) + " have ended";
    return no_progress;
}

template <class F>
int run(dim3 grid, int threads, const F& body) {
    block.body = [](const void* f) { (*(const F*)f)(); };
    block.arguments = &body;
    blockDim = dim3(threads), gridDim = grid;
    std::vector<unsigned> order(grid.x * grid.y * grid.z);
    for (unsigned i = 0; i < order.size(); i++) order[i] = i;
    for (unsigned i = order.size(); seed && i > 1; i--) std::swap(order[i - 1], order[random(i)]);
    for (unsigned i : order) {
        blockIdx = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
        if (const int code = run_block(threads)) return code;
    }
    return 0;
}

template <class T>
uint64_t to_word(T value) {
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
}

template <class T>
T from_word(uint64_t word) {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

}  // namespace shim

inline void __syncthreads() { shim::barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffff) { shim::meet(mask, 0); }
inline void __threadfence() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
    return shim::from_word<T>(shim::meet(mask, shim::to_word(value))[lane % 32]);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
    return __shfl_sync(mask, value, (int)(threadIdx.x % 32) ^ lanes);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, int lanes) {
    const int lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane < lanes ? lane : lane - lanes);
}

inline unsigned __ballot_sync(unsigned mask, bool vote) {
    const uint64_t* votes = shim::meet(mask, vote);
    unsigned all = 0;
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) all |= (unsigned)votes[i] << i;
    return all;
}

template <class T>
T atomicAdd(T* p, T value) {
    const T before = *p;
    *p += value;
    return before;
}

template <class T>
T atomicMin(T* p, T value) {
    const T before = *p;
    *p = std::min(*p, value);
    return before;
}

template <class T>
T atomicMax(T* p, T value) {
    const T before = *p;
    *p = std::max(*p, value);
    return before;
}

template <class T>
T __ldcs(const T* p) { return *p; }
template <class T>
T __ldcg(const T* p) { return *p; }

namespace acctax {

template <class T>
struct Itself {
    using type = T;
};

template <class... P>
int launch(void (*kernel)(P...), dim3 grid, int threads, void*, typename Itself<P>::type... arguments) {
    return shim::run(grid, threads, [&] { kernel(arguments...); });
}

}  // namespace acctax

extern "C" inline __attribute__((used)) void shim_seed(uint64_t seed) {
    shim::seed = seed, shim::steady = seed % 2 ? 1 : 64;
}
extern "C" inline __attribute__((used)) const char* shim_error() { return shim::error.c_str(); }
