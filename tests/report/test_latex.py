import re
from collections import Counter

import pytest

from acctax.report import latex
from acctax.report.sections import sections
from acctax.report.tables import Table
from tests.report.sweeps import FAILURE, over_K, over_schemes, read, scored

GOLDEN = r"""\begin{table}[p]
\centering
\caption{Wins, log-\% (a\_b)}
\label{tab:wins}
\begin{tabular}{lrr}
\toprule
cell & $W_{\mathrm{spec}}$ & $\tau_{\mathrm{c}}$/$\tau_{\mathrm{r}}$ \\
\midrule
nvfp4\_qkv K=1 & 0.998 [$-$0.1, $\infty$] & 50 \% \\
nvfp4\_qkv K=2 & 1.2 $\to$ 1.3 & --- \\
\addlinespace
int8 K=1 & \textbackslash{}a\{b\}\$\&\#\textasciicircum{}\textasciitilde{} & 1--2 \\
\bottomrule
\end{tabular}
\par\smallskip
\begin{minipage}{0.9\linewidth}100$\cdot$ln\end{minipage}
\end{table}
"""


def render(findings) -> str:
    return latex.render(findings, sections(findings))


def test_a_table_is_what_it_was():
    groups = (
        (("nvfp4_qkv K=1", "0.998 [−0.1, ∞]", "50 %"), ("nvfp4_qkv K=2", "1.2 → 1.3", "—")),
        (("int8 K=1", r"\a{b}$&#^~", "1–2"),),
    )
    table = Table("wins", "Wins, log-%", ("cell", "W_spec", "τ_c/τ_r"), groups, "100·ln")
    assert latex._table(table, r"a\_b") == GOLDEN


@pytest.mark.parametrize("records", [
    over_K(), over_schemes(), [scored(record, 0.01 * i) for i, record in enumerate(over_schemes(), 1)]])
def test_a_document_is_sound(records):
    text = render(read(records, FAILURE))
    opened, closed = (Counter(re.findall(rf"\\{which}\{{(\w+)\}}", text)) for which in ("begin", "end"))
    assert opened == closed and opened["table"] > 3
    bare = re.sub(r"\\[\\{}$%&#_]", "", text)  # what is left of a special sign means what it means to TeX
    assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
    mathematics = re.sub(r"\$[^$]*\$", "", bare)
    assert not set("%#_^~<>|") & set(mathematics)
    assert text.isascii()
    for table in re.findall(r"\\begin\{tabular\}\{(l(?:r|p\{[^}]*\})*)\}\n(.*?)\\end\{tabular\}", text, re.S):
        columns = len(re.sub(r"\{[^}]*\}", "", table[0]))
        rows = [line for line in table[1].splitlines() if line.endswith(r"\\")]
        assert rows and all(len(re.findall(r"(?<!\\)&", row)) == columns - 1 for row in rows)


def test_a_title_from_a_path_is_escaped():
    assert latex.escape("hf:/models/my_llama#1 50%") == r"hf:/models/my\_llama\#1 50\%"
