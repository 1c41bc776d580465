"""measure=auto: the verdict is looked at a few times, each time on twice as much, until it stands.

Who looks again and again stops too often on a lucky sample: four looks at 95 % intervals let through up to four times
the errors of one. So the sizes are fixed before anything is measured, the number of looks is written into the record,
and `analyze` widens its intervals by it (Bonferroni: each look may err in 5 % / looks, all of them together in 5 %).
"""

import math

from acctax.config import Measure

UNITS = ("prompts", "rounds")


def schedule(measure: Measure, available: int) -> list[dict[str, int]]:
    """Prompts and rounds of each look; one look where there is no budget. available: prompts of the workload."""
    start = {"prompts": min(measure.prompts, available), "rounds": measure.rounds}
    if measure.budget is None:
        return [start]
    most = {"prompts": min(measure.budget.prompts, available), "rounds": measure.budget.rounds}
    doublings = max(math.ceil(math.log2(most[unit] / start[unit])) for unit in UNITS)
    return [{unit: min(most[unit], start[unit] << look) for unit in UNITS} for look in range(doublings + 1)]
