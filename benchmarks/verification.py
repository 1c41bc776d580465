"""What verification costs on the device: from the target's logits and the drafters' laws to the committed tokens.

    python benchmarks/verification.py [--vocab 151936] [-K 5] [--rounds 15] [--device cuda] [--json FILE]

Two kinds of logits: `peaked`, of which top-p 0.95 keeps hundreds, and `flat`, of which it keeps tens of thousands. The
rules take turns within a round. On a GPU a turn is a graph of a hundred verifications, of which one is stated.
"""

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from acctax import environment, ops
from acctax.replayed import Recorder, seconds

RULES = {  # temperature, top-k, top-p
    "greedy": (0.0, 0, 1.0),
    "T=1": (1.0, 0, 1.0),
    "T=1, top-k 50": (1.0, 50, 1.0),
    "T=1, top-p 0.95": (1.0, 0, 0.95),
    "T=1, top-k 50, top-p 0.95": (1.0, 50, 0.95),
}
SPREADS = {"peaked": 5.0, "flat": 2.0}  # of normally distributed logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocab", type=int, default=151_936)
    parser.add_argument("-K", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="where the table goes, too")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no GPU here; --device cpu clocks the CPU's ops")
    (ops.load_cuda if arguments.device == "cuda" else ops.load)()
    rows = clock(torch.device(arguments.device), arguments.vocab, arguments.K, arguments.rounds)
    hardware = torch.cuda.get_device_name() if arguments.device == "cuda" else environment.describe()["hardware"]
    where = f"{hardware}, {ops.backend(arguments.device)}"
    table = Table("rule", "logits", "µs", title=f"verification of K={arguments.K}, V={arguments.vocab}: {where}")
    for row in rows:
        table.add_row(row["law"], row["logits"], f"{row['us']:.1f}")
    Console(width=110).print(table)
    if arguments.json:
        made = {"hardware": where, "vocab": arguments.vocab, "K": arguments.K, "rows": rows}
        arguments.json.write_text(json.dumps(made, indent=1))


@torch.inference_mode()
def clock(device: torch.device, vocab: int, K: int, rounds: int) -> list[dict[str, str | float]]:
    recorder, times = Recorder(device), 100 if device.type == "cuda" else 1
    steps, found = {}, {}
    for (logits_name, spread), (law, rule) in product(SPREADS.items(), RULES.items()):
        given = drafted(vocab, K, spread, rule, device)

        def step(given: tuple[Tensor, ...] = given, rule: tuple[float, int, float] = rule) -> None:
            for _ in range(times):
                ops.verify(*given, *rule)

        steps[law, logits_name] = recorder.record(step)
        found[law, logits_name] = []
    for r in range(rounds):
        for job in list(steps) if r % 2 == 0 else reversed(steps):
            start = recorder.mark()
            steps[job]()
            end = recorder.mark()
            recorder.wait()
            found[job].append(seconds(start, end) / times)
    return [{"law": law, "logits": logits, "us": 1e6 * median(each)} for (law, logits), each in found.items()]


def drafted(vocab: int, K: int, spread: float, rule: tuple[float, int, float], device: torch.device) -> tuple:
    """logits [K+1, vocab], the drafters' laws q [K, vocab] or none, drafts [K], u [K+1]."""
    g = torch.Generator().manual_seed(vocab)
    logits = (spread * torch.randn(K + 1, vocab, generator=g)).to(device)
    near = logits[:K] + 0.3 * torch.randn(K, vocab, generator=g).to(device)
    u = 1 - torch.rand(K + 1, generator=g, dtype=torch.float64).to(device)
    if rule[0] == 0:
        return logits, None, near.argmax(-1), u
    q = ops.law(near, *rule)
    return logits, q, torch.multinomial(q.cpu(), 1, generator=g).flatten().to(device), u


if __name__ == "__main__":
    main()
