"""What a head is: one decoder block, what it is fed with, and where its parameters stand in the file."""

from collections.abc import Mapping
from dataclasses import dataclass

from acctax.models.config import DecoderConfig

# A recipe calls a head's modules as those of a decoder of one layer, whatever its file calls them.
LAYER = "model.layers.0."
MODULES = {
    "input_proj": LAYER + "input_proj",  # what joins states, or a token and a state: fc, eh_proj, input_proj
    **{name: f"{LAYER}self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")},
    **{name: f"{LAYER}mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")},
    "lm_head": "lm_head",
}


@dataclass(frozen=True, eq=False)
class HeadConfig:
    """`names`: parameter → tensor in the file. A norm, a bias, an embedding or an lm_head without a name is none.

    The two ways in, for token x and state g:

        wide     g = input_proj(states), attention reads [embed_norm(E x), hidden_norm(g)], g is the residual  (EAGLE-3)
        narrow   g = the one state, the block reads input_proj([embed_norm(E x), hidden_norm(g)])   (MTP, EAGLE-1)
    """

    family: str
    block: DecoderConfig  # one layer; its context is the head's
    names: Mapping[str, str]
    states: tuple[int, ...]  # the target's hidden states it takes, as `Decoder.forward` counts them
    state_size: int  # the target's hidden size
    draft_vocab: int
    wide: bool
    recycles_normed: bool  # the state of a draft is the block's output after `norm`, else before it
    hidden_first: bool = False  # narrow: [hidden_norm(g), embed_norm(E x)]
    norm_before_residual: bool = False  # wide: hidden_norm(g) is the residual
    blind_start: bool = False  # the first token of all is read as a row of zeros
    gated: bool = False  # q_proj holds a gate for each head's output beside its q
    rotary_dims: int | None = None  # of head_dim, where not all are rotated
    own: str = ""  # prefix of the head's tensors, where the file may hold its target too

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter → shape in the file."""
        b, states = self.block, len(self.states) * self.state_size
        q, kv = b.heads * b.head_dim, b.kv_heads * b.head_dim
        reads = 2 * b.hidden if self.wide else b.hidden
        matrices = {
            "input_proj": (b.hidden, states if self.wide else 2 * b.hidden),
            "q_proj": (2 * q if self.gated else q, reads),
            "k_proj": (kv, reads),
            "v_proj": (kv, reads),
            "o_proj": (b.hidden, q),
            "gate_proj": (b.intermediate, b.hidden),
            "up_proj": (b.intermediate, b.hidden),
            "down_proj": (b.hidden, b.intermediate),
            "lm_head": (self.draft_vocab, b.hidden),
        }
        norms = {name: (b.hidden,) for name in ("embed_norm", "hidden_norm", "attention_norm", "mlp_norm", "norm")}
        return {
            **matrices,
            **{f"{name}.bias": (shape[0],) for name, shape in matrices.items()},
            **norms,
            "q_norm": (b.head_dim,),
            "k_norm": (b.head_dim,),
            "states_norm": (states,),
            **{f"state_norm.{i}": (self.state_size,) for i in range(len(self.states))},
            "embedding": (b.vocab, b.hidden),
            "d2t": (self.draft_vocab,),
            "t2d": (b.vocab,),
        }

    def linears(self) -> dict[str, tuple[int, int]]:
        """Module, as a recipe calls it → [out features, in features]."""
        shapes = self.shapes()
        return {module: shapes[name] for name, module in MODULES.items()}
