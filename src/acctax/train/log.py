"""A training run in MLflow: parameters once, metrics by step, the card and the head's configuration at the end."""

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from mlflow.entities import Metric, Param, RunTag

from acctax import environment
from acctax.tracking import open_store
from acctax.train.config import TrainRun


class Log:
    """A run that goes on after a kill goes on in MLflow too: its id is kept beside the state."""

    def __init__(self, run: TrainRun, folder: Path):
        """Raises ConfigError where the store cannot be used."""
        self._store = open_store(run.tracking)
        kept = folder / "mlflow.json"
        place = {"uri": self._store.uri, "experiment": run.tracking.experiment}
        before = json.loads(kept.read_text()) if kept.is_file() else {}
        if all(before.get(name) == value for name, value in place.items()):
            self.run_id = before["run_id"]
            self._store.client.update_run(self.run_id, status="RUNNING")
        else:
            self.run_id = self._start(run)
            kept.write_text(json.dumps({**place, "run_id": self.run_id}) + "\n")

    def _start(self, run: TrainRun) -> str:
        tags = {"kind": "train", "pid": str(os.getpid()), "rerun": run.command, **environment.describe()}
        name = f"train {run.draft_source} {run.target.label}"
        run_id = self._store.client.create_run(self._store.experiment_id, run_name=name, tags=tags).info.run_id
        params = {"target": run.target.label, "draft_source": run.draft_source, "seed": run.seed}
        for group in ("data", "fit"):
            params |= {f"{group}.{field}": value for field, value in vars(getattr(run, group)).items()}
        self._store.client.log_batch(run_id, params=[Param(name, str(value)[:500]) for name, value in params.items()])
        return run_id

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in values.items() if math.isfinite(value)]
        tags = [RunTag("pid", str(os.getpid()))]
        self._store.client.log_batch(self.run_id, metrics=metrics, tags=tags)

    def files(self, files: Iterable[Path]) -> None:
        for file in files:
            self._store.client.log_artifact(self.run_id, str(file))

    def end(self, status: str) -> None:
        self._store.client.set_terminated(self.run_id, status=status)
