"""The order of a report on paper: sections of pictures and tables, without those that have nothing to say."""

from dataclasses import dataclass

from acctax.report import pictures, tables
from acctax.report.findings import Findings
from acctax.report.pictures import Picture


@dataclass(frozen=True)
class Section:
    title: str
    pictures: tuple[Picture, ...]
    tables: tuple[tables.Table, ...]


def sections(findings: Findings) -> list[Section]:
    sweep = findings.sweep
    picture = pictures.draw(sweep)
    planned = {
        "From bytes to tokens": (("waterfall",), (tables.wins(sweep), tables.waterfall(sweep), tables.taxes(sweep))),
        "What to do next": ((), (tables.next_actions(findings.actions),)),
        "Draft depth": (("tok_s_over_k",), (tables.best_K(sweep), tables.tuned_taxes(sweep))),
        "Acceptance": (("acceptance_by_position", "byte_win_over_tv"), (tables.same_context(sweep),)),
        "Time": (("forward_time",), (tables.timing(sweep),)),
        "Bytes": (("bytes_by_component",), ()),
        "Predictions": ((), (tables.predictions(sweep),)),
        "Target and drafter": ((), (tables.interaction(sweep),)),
        "Rejected and failed": ((), (tables.rejected(sweep), tables.failed(findings.failures))),
    }
    made = (
        Section(title, tuple(picture[name] for name in names if name in picture), tuple(filter(None, tables_)))
        for title, (names, tables_) in planned.items()
    )
    return [section for section in made if section.pictures or section.tables]
