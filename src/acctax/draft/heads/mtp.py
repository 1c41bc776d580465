"""What the MTP families have in common."""

from acctax.draft.heads.files import HeadFiles
from acctax.models.config import DecoderConfig
from acctax.models.decoder import NORMED

FIELD = "verifier_hidden_state"


def state_that_config_names(files: HeadFiles, target: DecoderConfig) -> int:
    """Which of the target's last states the head takes, where the layout leaves it open and engines differ."""
    states = {"post_norm": NORMED, "pre_norm": len(target.layers)}
    said = files.values.get(FIELD)
    wanted = "must be given in config.json, as engines differ: pre_norm or post_norm, of the target's final norm"
    files.require(said in states, FIELD, said, wanted)
    return states[said]
