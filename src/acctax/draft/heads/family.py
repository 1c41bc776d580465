"""The families of checkpoints, each told by what is in the folder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.files import HeadFiles
from acctax.models.config import DecoderConfig

Kind = Literal["mtp", "eagle"]
Reader = Callable[[HeadFiles, DecoderConfig], HeadConfig]


@dataclass(frozen=True)
class Family:
    name: str
    kind: Kind
    knows: Callable[[HeadFiles], bool]
    read: Reader


_FAMILIES: list[Family] = []


def register(name: str, kind: Kind, knows: Callable[[HeadFiles], bool]) -> Callable[[Reader], Reader]:
    """Decorator: the function reads what `knows` recognizes."""

    def decorate(read: Reader) -> Reader:
        _FAMILIES.append(Family(name, kind, knows, read))
        return read

    return decorate


def family_of(files: HeadFiles, kind: Kind) -> Family:
    """Raises ConfigError where no family, or more than one, or one of the other kind knows the files."""
    found = [family for family in _FAMILIES if family.knows(files)]
    names = ", ".join(family.name for family in found)
    known = ", ".join(family.name for family in _FAMILIES)
    files.require(bool(found), "tensors", f"{len(files.shapes)}", f"must be a head of a known layout: {known}")
    files.require(len(found) == 1, "tensors", names, "must be of one layout, not several")
    other = {"mtp": "eagle", "eagle": "mtp"}[kind]
    files.require(found[0].kind == kind, "layout", names, f"is one of draft_source={other}, not {kind}")
    return found[0]
