#!/usr/bin/env bash
# Everything that needs a GPU, in one call of under 8 minutes, without a network:
#
#     scripts/gpu_check.sh WHEELS [OUT]
#
# WHEELS  a folder of wheels for what the machine's python3 lacks; they are unpacked for this call alone. To fill it:
#             pip wheel --no-deps --wheel-dir WHEELS . antlr4-python3-runtime==4.9.3
#             pip download --no-deps --only-binary=:all: --python-version 3.12 --dest WHEELS -r scripts/gpu_wheels.txt
# OUT     where summary.md, summary.json, logs and the report go; the environment's OUT by default, else gpu_check/
#
# Without a GPU the same steps run on the CPU with tiny shapes, and those that need one say what they would run.
# A step that fails does not stop the rest; the exit code is 0 where none failed.
set -u
cd "$(dirname "$0")/.."
wheels=${1:-}
out=${2:-${OUT:-gpu_check}}
mkdir -p "$out/logs"
out=$(cd "$out" && pwd)
site=$(mktemp -d) # of unpacked wheels
trap 'rm -rf "$site"' EXIT
steps=$out/steps.tsv
: >"$steps"

python=${PYTHON:-python3}
gpu=$("$python" -c 'import torch; print(int(torch.cuda.is_available()))' 2>/dev/null || echo 0)
slower=$((gpu ? 1 : 20)) # without a GPU nothing is paid by the minute, and a CPU may be busy
deadline=$((SECONDS + 465 * slower))
export PYTHONPATH=$PWD:$PWD/src:$site${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1

# step NAME LIMIT COMMAND…: runs it for LIMIT seconds at most, or what is left of all; its words go to logs/NAME.log
step() {
    local name=$1 limit=$(($2 * slower)) left=$((deadline - SECONDS)) start=$SECONDS code
    shift 2
    if ((left < 10)); then
        printf '%s\t%s\t%s\t%s\n' "$name" skipped 0 "no time left" >>"$steps"
        return
    fi
    timeout -k 5 $((limit < left ? limit : left)) "$@" >"$out/logs/$name.log" 2>&1
    code=$?
    printf '%s\t%s\t%s\t%s\n' "$name" $code $((SECONDS - start)) "$*" >>"$steps"
    echo "$name: exit code $code, $((SECONDS - start)) s"
    ((code == 0)) || tail -n 5 "$out/logs/$name.log"
}

# only_on_gpu NAME LIMIT COMMAND…: elsewhere it says what would run
only_on_gpu() {
    if [ "$gpu" = 1 ]; then
        step "$@"
    else
        printf '%s\t%s\t%s\t%s\n' "$1" "no GPU" 0 "${*:3}" >>"$steps"
        echo "$1: no GPU here; it would run: ${*:3}"
    fi
}

if [ -n "$wheels" ]; then
    step wheels 60 "$python" -m pip install -q --no-index --no-deps --no-compile --target "$site" "$wheels"/*.whl
    grep -q "^wheels	0	" "$steps" || { echo "without its wheels nothing else can run"; exit 1; }
fi
if [ "$gpu" = 1 ]; then
    nvidia-smi >"$out/logs/nvidia-smi.log" 2>&1
    model=(target.layers=32 target.hidden=4096 target.heads=32 target.kv_heads=8 target.intermediate=14336
           target.vocab=128256 target.context=4096 target.tie=false measure.prompts=8 measure.max_new_tokens=96
           measure.rounds=6 measure.cycles=6)
    equality=(--layers 30 --hidden 576 --heads 9 --kv-heads 3 --intermediate 1536 --vocab 49152)
else
    model=(target.intermediate=96 measure.prompts=2 measure.max_new_tokens=12 measure.rounds=2 measure.cycles=1)
    equality=(--recipes bf16,nvfp4_all --length 24)
fi

only_on_gpu build 200 "$python" -c 'from acctax.ops.build_cuda import build_cuda; print(build_cuda())'
step equality 90 "$python" scripts/gpu_equality.py "${equality[@]}"
step random_llama 170 "$python" -m acctax target=random_llama "${model[@]}" target_quant=nvfp4_all K=4 \
    draft_source=synthetic "draft_source.like={kind: self, recipe: nvfp4_all}" measure.levers=false \
    tracking.uri="sqlite:///$out/mlflow.db" hydra.sweep.dir="$out/sweep"
only_on_gpu kernels 60 "$python" benchmarks/kernels.py --shape 14336x4096
only_on_gpu ops 90 "$python" -m pytest -q -p no:cacheprovider tests/ops -k "cuda and not shim and not build and not sanitizers"
only_on_gpu memcheck 60 compute-sanitizer --tool memcheck --error-exitcode 1 \
    "$python" scripts/gpu_equality.py --recipes nvfp4_all --length 4 --drafts 2
only_on_gpu racecheck 60 compute-sanitizer --tool racecheck --error-exitcode 1 \
    "$python" scripts/gpu_equality.py --recipes nvfp4_all --length 4 --drafts 2

"$python" scripts/gpu_summary.py "$out"
