"""What a forward costs beside its kernels: 30 layers of a model so small that only the calls remain.

    python benchmarks/overhead.py
"""

from statistics import median
from time import perf_counter

from acctax import ops
from acctax.config import AS_LOADED, RandomLlamaTarget
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder

TINY = RandomLlamaTarget("random_llama", 30, 64, 2, 1, 64, vocab=64, context=256, tie=True, seed=0)


def main() -> None:
    ops.load()
    decoder = Decoder.load(open_checkpoint(TINY), AS_LOADED, 128)
    cache = decoder.new_cache()
    decoder.forward([1] * 32, cache)
    print(f"kernels: {ops.backend()}")
    for rows in (1, 5):
        seconds = []
        for _ in range(300):
            start = perf_counter()
            decoder.forward([1] * rows, cache)
            seconds.append(perf_counter() - start)
            cache.roll_back(32)
        print(f"{rows} rows, 30 layers: {1e3 * median(seconds):.2f} ms (best {1e3 * min(seconds):.2f})")


if __name__ == "__main__":
    main()
