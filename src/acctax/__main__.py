"""The command line: compose the cells of a sweep, check them all, measure them, report.

Exit codes: 0, 1 when a cell failed, 2 for a choice that cannot run, 130 after Ctrl-C.
"""

import os
import sys

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from acctax import config, interrupt, sweep
from acctax.complaints import translate
from acctax.errors import ConfigError
from acctax.paths import conf_dir
from acctax.record import Record


@hydra.main(config_path=str(conf_dir()), config_name="config", version_base="1.3")
def measure(cfg: DictConfig) -> Record:
    """One cell; hydra's launcher calls it, for each cell of the sweep."""
    return sweep.measure_cell(cfg)


def main() -> None:
    """Raises SystemExit with the exit code unless everything went well."""
    arguments = [argument for argument in sys.argv[1:] if argument not in ("-m", "--multirun")]
    if not any(argument.startswith("-") for argument in arguments):
        arguments.append("--multirun")  # the one way to run, and its flag may stand anywhere
    sys.argv[1:] = arguments
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1"
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises what it would print
    interrupt.catch()
    try:
        config.register_options()
        measure()
    except sweep.CellsFailed as error:
        _fail(str(error), 1)
    except KeyboardInterrupt as stop:
        _fail(str(stop) or "interrupted", 130)
    except (ConfigError, HydraException, OmegaConfBaseException, ValueError) as error:
        if wants_traceback or not _is_users(error):
            raise
        overrides = [argument for argument in arguments if not argument.startswith("-")]
        _fail(f"error: {error if isinstance(error, ConfigError) else translate(error, overrides)}", 2)


def _is_users(error: Exception) -> bool:
    """Hydra raises a bare ValueError where an option is no text (`target=3`)."""
    ours = isinstance(error, ConfigError | HydraException | OmegaConfBaseException)
    return ours or str(error).startswith("Config group override")


def _fail(line: str, code: int) -> None:
    print(f"acctax: {line}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
