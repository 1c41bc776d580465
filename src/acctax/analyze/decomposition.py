"""From bytes to tokens: where a byte win goes on its way to speculative tok/s, exactly, in logarithms."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

N = TypeVar("N", float, np.ndarray)


@dataclass(frozen=True)
class Decomposition(Generic[N]):
    """The wins, candidate over reference, and the four losses between the first and the last.

    ln W_bytes − ln W_spec = kernels + verify_width + draft_and_overhead + acceptance, as an identity; each
    loss is a natural logarithm, positive where it eats the win, negative where it adds to it.
    """

    W_bytes: N  # what the ledger promises: B_r / B_c
    W_AR: N  # what plain decoding gets: T_r(1) / T_c(1)
    W_spec: N  # what speculative decoding gets: (τ_c / C_c) / (τ_r / C_r)
    kernels: N  # ln W_bytes − ln W_AR
    verify_width: N  # ln [T(K+1) / T(1)], candidate less reference
    draft_and_overhead: N  # ln [C / T(K+1)], candidate less reference
    acceptance: N  # −ln (τ_c / τ_r)

    @property
    def losses(self) -> dict[str, N]:
        return {
            "kernels": self.kernels,
            "verify width": self.verify_width,
            "draft and overhead": self.draft_and_overhead,
            "acceptance": self.acceptance,
        }


@dataclass(frozen=True)
class Corner(Generic[N]):
    """What the decomposition needs of one arm; times in one unit, bytes in one unit."""

    bytes_token: float
    T1: N
    T_verify: N
    C: N
    tau: N


def decompose(r: Corner[N], c: Corner[N]) -> Decomposition[N]:
    """Of reference r and candidate c; floats, or arrays of resamples."""
    W_bytes = r.bytes_token / c.bytes_token
    W_AR = r.T1 / c.T1
    return Decomposition(
        W_bytes=W_bytes,
        W_AR=W_AR,
        W_spec=(c.tau / c.C) / (r.tau / r.C),
        kernels=np.log(W_bytes / W_AR),
        verify_width=np.log((c.T_verify / c.T1) / (r.T_verify / r.T1)),
        draft_and_overhead=np.log((c.C / c.T_verify) / (r.C / r.T_verify)),
        acceptance=-np.log(c.tau / r.tau),
    )
