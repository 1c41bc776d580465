#!/usr/bin/env bash
# Everything that needs a GPU, in one call of under 8 minutes, without a network:
#
#     scripts/gpu_check.sh WHEELS [OUT]
#
# WHEELS  a folder of wheels for what the machine's python3 lacks, unpacked for this call alone; "" where it lacks
#         nothing. To fill wheels/, of acctax with its name and version alone, as the code is this checkout's:
#             pip wheel --no-deps --wheel-dir wheels . antlr4-python3-runtime==4.9.3
#             zip -q -d wheels/acctax-*.whl 'acctax/*' 'hydra_plugins/*'
#             pip download --no-deps --only-binary=:all: --python-version 3.12 --dest wheels -r scripts/gpu_wheels.txt
#         21 MB. And for bitsandbytes, a peer in benchmarks/kernels.py, 7 MB, what its wheel of 43 MB has for CUDA 13:
#             pip download --no-deps --only-binary=:all: --python-version 3.12 --dest wheels bitsandbytes==0.50.2
#             zip -q -d wheels/bitsandbytes-*.whl '*_cuda11*' '*_cuda12*' '*_rocm*' '*_xpu*'
#         git ignores wheels/: what takes the tracked files to the machine must be told to take this folder too.
# OUT     where summary.md, summary.json and logs.tar.gz go; the environment's OUT by default, else gpu_check/
#
# Without a GPU the same steps run on the CPU with tiny shapes, and those that need one say what they would run.
# A step that fails does not stop the rest; the exit code is 0 where none failed.
set -u
SECONDS=0
cd "$(dirname "$0")/.."
wheels=${1:-}
out=${2:-${OUT:-gpu_check}}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d) # logs and what the steps write: logs.tar.gz
site=$(mktemp -d) # of unpacked wheels
trap 'rm -rf "$work" "$site"' EXIT
mkdir "$work/logs"

python=${PYTHON:-python3}
gpu=$("$python" -c 'import torch; print(int(torch.cuda.is_available()))' 2>"$work/logs/torch.log" || echo 0)
if [ "$gpu" = 0 ] && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    echo "there is a GPU, but $python's torch does not see it:"
    "$python" -c 'import torch; torch.cuda.init()' 2>&1 | tail -n 1
    exit 1
fi
slower=$((gpu ? 1 : 20)) # without a GPU nothing is paid by the minute, and a CPU may be busy
deadline=$((465 * slower))
# Seconds kept for each step, less than 465 in all, the 5 in which it may be killed among them: no step before it can
# take them. It may use all that is left but those of the steps after it.
declare -A kept=([wheels]=20 [build]=50 [ops]=40 [equality]=60 [random_llama]=110 [kernels]=25 [kernels_least]=25
                 [verification]=20 [memcheck]=60 [racecheck]=45)
export PYTHONPATH=$PWD:$PWD/src:$site${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1

# record NAME CODE SECONDS COMMAND…: and all that is known so far goes to OUT, for the next step may be the last
record() {
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${*:4}" >>"$work/steps.tsv"
    "$python" scripts/gpu_summary.py "$work" "$out" >/dev/null
    failed=$?
    tar -czf "$out/logs.tar.gz" -C "$work" .
}

# step NAME COMMAND…: its words go to logs/NAME.log; 77 is the code of what cannot run here
step() {
    local name=$1 start=$SECONDS limit=$((deadline - SECONDS - 5)) code later
    shift
    unset "kept[$name]"
    for later in "${kept[@]}"; do limit=$((limit - later * slower)); done
    if ((limit < 1)); then # to timeout, 0 is no limit
        record "$name" "no time left" 0 "$@"
        return
    fi
    timeout -k 5 "$limit" "$@" >"$work/logs/$name.log" 2>&1
    code=$?
    ((code == 77)) && code="not available"
    echo "$name: exit code $code, $((SECONDS - start)) s"
    [ "$code" = 0 ] || tail -n 5 "$work/logs/$name.log"
    record "$name" "$code" $((SECONDS - start)) "$@"
}

# only_on_gpu NAME COMMAND…: elsewhere it says what would run
only_on_gpu() {
    if [ "$gpu" = 1 ]; then
        step "$@"
    else
        unset "kept[$1]"
        echo "$1: no GPU here; it would run: ${*:2}"
        record "$1" "no GPU" 0 "${@:2}"
    fi
}

if [ -n "$wheels" ]; then
    step wheels "$python" -m pip install -q --no-index --no-deps --no-compile --target "$site" "$wheels"/*.whl
    ((failed)) && { echo "without its wheels nothing else can run"; exit 1; }
else
    unset "kept[wheels]"
fi
if [ "$gpu" = 1 ]; then
    nvidia-smi >"$work/logs/nvidia-smi.log" 2>&1
    model=(target.layers=32 target.hidden=4096 target.heads=32 target.kv_heads=8 target.intermediate=14336
           target.vocab=128256 target.context=4096 target.tie=false measure.prompts=8 measure.max_new_tokens=96
           measure.rounds=6 measure.cycles=6)
    equality=(--layers 30 --hidden 576 --heads 9 --kv-heads 3 --intermediate 1536 --vocab 49152)
else
    model=(target.intermediate=96 measure.prompts=2 measure.max_new_tokens=12 measure.rounds=2 measure.cycles=1)
    equality=(--recipes bf16,nvfp4_all --length 24)
fi

only_on_gpu build "$python" -c 'from acctax.ops.build_cuda import build_cuda; print(build_cuda())'
only_on_gpu ops "$python" -m pytest -q -p no:cacheprovider tests/ops -k "cuda and not shim and not build and not sanitizers"
step equality "$python" scripts/gpu_equality.py "${equality[@]}"
step random_llama "$python" -m acctax target=random_llama "${model[@]}" target_quant=nvfp4_all K=4 \
    draft_source=synthetic "draft_source.like={kind: self, recipe: nvfp4_all}" measure.levers=false \
    tracking.uri="sqlite:///$work/mlflow.db" hydra.sweep.dir="$work/sweep"
# 14336x4096 is a large model's matrix, 4096x4096 the smallest that a bar speaks of
only_on_gpu kernels "$python" benchmarks/kernels.py --shape 14336x4096 --json "$work/kernels.json"
only_on_gpu kernels_least "$python" benchmarks/kernels.py --shape 4096x4096 --json "$work/kernels_least.json"
only_on_gpu verification "$python" benchmarks/verification.py --json "$work/verification.json"
only_on_gpu memcheck "$python" scripts/gpu_sanitizer.py memcheck
only_on_gpu racecheck "$python" scripts/gpu_sanitizer.py racecheck

cat "$out/summary.md"
exit "$failed"
