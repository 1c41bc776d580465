"""Hydra's basic sweeper, with every cell checked before the first is launched. The sweep itself is acctax.sweep."""

import io
import shlex
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from acctax.record import Record


@dataclass
class AcctaxSweeperConf:
    _target_: str = "hydra_plugins.acctax_sweeper.sweeper.AcctaxSweeper"
    max_batch_size: int | None = None
    params: dict[str, str] | None = None  # what an experiment sweeps over; the command line goes before it
    case_study: dict[str, Any] | None = None  # figures to replay, instead of cells to measure


ConfigStore.instance().store(group="hydra/sweeper", name="acctax", node=AcctaxSweeperConf, provider="acctax")


class AcctaxSweeper(BasicSweeper):
    def __init__(self, max_batch_size: int | None, params: dict[str, str] | None, case_study: dict[str, Any] | None):
        super().__init__(max_batch_size, params)
        self.case_study = case_study

    def sweep(self, arguments: list[str]) -> list[Record]:
        from acctax import sweep  # here: Hydra imports every plugin, for any application

        into = Path(self.config.hydra.sweep.dir)
        if self.case_study:
            from acctax import replay

            replay.check(arguments)
            replay.replay(self.case_study, sweep.make_folder(into))
            return []
        composed = list(self._compose(arguments))
        cells = sweep.check(composed)
        jobs = [overrides for _, overrides in composed]
        folder = sweep.make_folder(into)
        OmegaConf.save(self.config, folder / "multirun.yaml")

        def launch(number: int) -> Record:
            job = self.launcher.launch([jobs[number]], initial_job_idx=number)[0]
            with redirect_stderr(io.StringIO()):  # Hydra's own word on a failed job; the sweep has a better one
                return job.return_value  # raises what the job raised

        return sweep.run(cells, launch, folder, shlex.join(["python", "-m", "acctax", *arguments]))

    def _compose(self, arguments: list[str]) -> Iterator[tuple[DictConfig, list[str]]]:
        """Every cell's configuration and overrides.

        What an experiment sweeps over, and the arguments do not give, is swept too; it may be other experiments.
        """
        loader = self.hydra_context.config_loader
        parsed = OverridesParser.create(config_loader=loader).parse_overrides(arguments)
        for overrides in self.split_arguments(parsed, max_batch_size=None)[0]:
            cfg = loader.load_sweep_config(self.config, overrides)
            given = {_key(override) for override in overrides}
            swept = {key: value for key, value in (cfg.hydra.sweeper.params or {}).items()
                     if key not in given or key == "experiment"}
            if swept:
                kept = [override for override in overrides if _key(override) not in swept]
                composed = self._compose([*kept, *(f"{key}={value}" for key, value in swept.items())])
                yield from _once(composed) if "experiment" in swept else composed
            else:
                yield cfg, overrides


def _key(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]


def _once(composed: Iterable[tuple[DictConfig, list[str]]]) -> Iterator[tuple[DictConfig, list[str]]]:
    """Without the cells that an earlier experiment has."""
    seen = []
    for cfg, overrides in composed:
        own = OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])
        if own not in seen:
            seen.append(own)
            yield cfg, overrides
