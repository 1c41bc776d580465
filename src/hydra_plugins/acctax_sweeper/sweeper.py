"""Hydra's basic sweeper, with every cell checked before the first is launched. The sweep itself is acctax.sweep."""

import io
import shlex
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from acctax.record import Record


@dataclass
class AcctaxSweeperConf:
    _target_: str = "hydra_plugins.acctax_sweeper.sweeper.AcctaxSweeper"
    max_batch_size: int | None = None
    params: dict[str, str] | None = None


ConfigStore.instance().store(group="hydra/sweeper", name="acctax", node=AcctaxSweeperConf, provider="acctax")


class AcctaxSweeper(BasicSweeper):
    def sweep(self, arguments: list[str]) -> list[Record]:
        from acctax import sweep  # here: Hydra imports every plugin, for any application

        loader = self.hydra_context.config_loader
        parsed = OverridesParser.create(config_loader=loader).parse_overrides(self._parse_config() + arguments)
        jobs = self.split_arguments(parsed, max_batch_size=None)[0]
        cells = sweep.check(
            (loader.load_sweep_config(self.config, overrides), overrides) for overrides in jobs)

        folder = sweep.make_folder(Path(self.config.hydra.sweep.dir))
        OmegaConf.save(self.config, folder / "multirun.yaml")

        def launch(number: int) -> Record:
            job = self.launcher.launch([jobs[number]], initial_job_idx=number)[0]
            with redirect_stderr(io.StringIO()):  # Hydra's own word on a failed job; the sweep has a better one
                return job.return_value  # raises what the job raised

        return sweep.run(cells, launch, folder, shlex.join(["python", "-m", "acctax", *arguments]))
