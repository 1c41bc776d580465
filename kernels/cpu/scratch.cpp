#include <cstdlib>
#include <new>

#include "kernels.h"

acctax::Scratch::~Scratch() { std::free(data); }

void* acctax::Scratch::of(int64_t bytes) {
    if (bytes > size) {
        std::free(data);
        size = 0;
        data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (!data) throw std::bad_alloc();
        size = bytes;
    }
    return data;
}
