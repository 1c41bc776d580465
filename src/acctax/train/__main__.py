"""The command line of the trainer: compose the run, check it, train.

Exit codes: 0, 2 for a choice that cannot run, 130 after Ctrl-C; the same command then goes on.
"""

import os
import signal
import sys

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from acctax.complaints import translate
from acctax.errors import ConfigError
from acctax.paths import conf_dir
from acctax.train.config import TrainRun, from_hydra

_composed: list[tuple[DictConfig, list[str]]] = []


@hydra.main(config_path=str(conf_dir()), config_name="train", version_base="1.3")
def _compose(cfg: DictConfig) -> None:
    """Nothing runs inside of Hydra, which has words of its own for every error there."""
    _composed[:] = [(cfg, list(HydraConfig.get().overrides.task))]


def main() -> None:
    """Raises SystemExit with the exit code unless everything went well."""
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1"
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises what it would print
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill ends like Ctrl-C
    _composed.clear()
    try:
        _compose()
        for cfg, overrides in _composed:  # none where only --help was asked for
            run = from_hydra(cfg, overrides)
            from acctax.train.job import train  # here: --help and a misspelt field need no torch

            train(run)
    except KeyboardInterrupt:
        _fail("interrupted, the same command goes on from here", 130)
    except (ConfigError, HydraException, OmegaConfBaseException) as error:
        if wants_traceback:
            raise
        overrides = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
        _fail(f"error: {error if isinstance(error, ConfigError) else translate(error, overrides, TrainRun)}", 2)


def _fail(line: str, code: int) -> None:
    print(f"acctax.train: {line}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
