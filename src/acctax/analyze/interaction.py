"""Do two quantizations add up? The target's and the drafter's together against each alone, on ln tok/s."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from acctax.analyze.intervals import Estimate, estimate
from acctax.analyze.sweep import Sweep

AS_LOADED = {"target_quant": "bf16", "drafter_quant": "none"}


@dataclass(frozen=True)
class Interaction:
    """Of a cell in which both are quantized: natural logarithms of W_spec, and what is left of their sum."""

    choices: Mapping[str, str | int | float]
    target: Estimate  # the target's quantization alone
    drafter: Estimate  # the drafter's alone
    both: Estimate
    beyond: Estimate  # both − target − drafter: 0 where they act apart, positive where they help one another


def interactions(sweep: Sweep) -> list[Interaction]:
    """One for every valid cell with both quantized whose two halves were measured too, all else being the same.

    ln W_spec is ln tok/s over the reference's in the same job, so that no drift between jobs is in it. Intervals
    are paired by prompt, as the resamples of rows are.
    """
    cells = {_key(row.choices): row for row in sweep.valid}
    found = []
    for row in sweep.valid:
        if any(row.choices[quant] == kept for quant, kept in AS_LOADED.items()):
            continue
        without = ({**row.choices, quant: AS_LOADED[quant]} for quant in ("drafter_quant", "target_quant"))
        halves = [cells.get(_key(choices)) for choices in without]
        if all(halves):
            target, drafter, both = (np.log(cell.resampled("speed/W_spec")) for cell in (*halves, row))
            found.append(Interaction(row.choices, *map(estimate, (target, drafter, both, both - target - drafter))))
    return found


def _key(choices: Mapping[str, str | int | float]) -> tuple:
    return tuple(sorted(choices.items()))
