#!/usr/bin/env bash
# Builds the engine for the card at hand, tests and measures it, and prints one table. No network is used.
#
#   bench/gpu/run.sh FOLDER        FOLDER: what `python -m bench.gpu.prepare FOLDER` made on another machine
#   MIDFILL_GPU_DRY=1 bench/gpu/run.sh
#                                  the same on the CPU with a tiny model and the engine that is installed: that it runs
#
# MIDFILL_GPU_S: seconds for all of it (600). MIDFILL_GPU_WORK: where it builds (a temporary folder). PYTHON: python3.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
ends=$(($(date +%s) + ${MIDFILL_GPU_S:-600}))
left() { echo $((ends - $(date +%s))); }
say() { printf '%4d s left: %s\n' "$(left)" "$*" >&2; }
work=${MIDFILL_GPU_WORK:-}
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"
tests="tests/inference/test_llama_model.py tests/inference/test_llama_state.py tests/inference/test_llama_cache_types.py"
tests="$tests tests/inference/test_equality_tiny.py tests/inference/test_memory_plan.py"

if [ -n "${MIDFILL_GPU_DRY:-}" ]; then
    tests="tests/inference/test_llama_cache_types.py"
    options="--shapes tiny --kinds Q4_K,Q8_0 --draft= --n-ctx 512"
    drafting="--target tiny --draft tiny --tokens 24 --pairs 1 --n-ctx 256 --rates 0.7,0.6"
else
    folder=${1:?"name the folder that python -m bench.gpu.prepare made"}
    command -v nvcc >/dev/null || { echo "there is no nvcc here: CUDA's compiler is needed to build for the card" >&2; exit 1; }
    command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader >&2
    say "joining the pieces"
    "$python" -c 'import sys; sys.path.insert(0, "."); from pathlib import Path; from bench.gpu.pieces import join
join(Path(sys.argv[1]), Path(sys.argv[2]))' "$folder" "$work/files"
    "$python" -m venv "$work/venv"
    python="$work/venv/bin/python"
    pip="$python -m pip install --quiet --disable-pip-version-check --no-index --find-links $work/files"
    say "building for the card"
    $pip scikit-build-core cmake ninja setuptools wheel numpy typing-extensions diskcache jinja2 gguf psutil pytest hypothesis \
        platformdirs tqdm aiohttp pathspec
    export PATH="$work/venv/bin:$PATH"
    CMAKE_ARGS="-DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native -DLLAVA_BUILD=OFF -DGGML_CCACHE=OFF" \
        CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) timeout "$(left)" \
        $pip --no-build-isolation --no-deps "$work"/files/llama_cpp_python-*.tar.gz
    options="--folder $work"
    drafting="--folder $work"
    # the smallest one is compared on both sides; two are taken for a pair
    models=$(find "$work/files" -name '*.gguf' -printf '%s %p\n' | sort -n | cut -d ' ' -f 2-)
    model=$(head -n 1 <<<"$models")
    [ -z "$model" ] || options="$options --model $model"
    larger=$(sed -n 2p <<<"$models")
fi

say "tests of the engine"
# what was built is tested before it is measured; a failure is told, and the measurement still made
status=0
# shellcheck disable=SC2086
timeout "$(left)" "$python" -m pytest -q -p no:cacheprovider -m "not real_model" $tests >&2 || status=$?
[ "$status" = 0 ] || say "tests ended with status $status"
say "measuring"
# drafts get a third of what is left: their models are written once more
seconds=$(($(left) * 2 / 3 - 30))
[ "$seconds" -gt 0 ] || { echo "no time is left to measure; give more with MIDFILL_GPU_S" >&2; exit 1; }
# shellcheck disable=SC2086
"$python" -m bench.gpu.measure --seconds "$seconds" $options
if [ -n "${larger:-}" ]; then
    say "drafts of a real pair"
    timeout "$(($(left) / 2 + 1))" "$python" -m bench.speculation --model "$larger" --draft "$model" --tokens 64 --timed 5 ||
        say "DRAFTS OF A REAL PAIR ARE NOT MEASURED (status $?)"
fi
if [ -f bench/gpu/rates.json ] || [ -n "${MIDFILL_GPU_DRY:-}" ]; then
    say "drafts of large shapes, simulated"
    # shellcheck disable=SC2086
    timeout "$(($(left) > 1 ? $(left) : 1))" "$python" -m bench.gpu.drafting $drafting ||
        say "DRAFTS OF LARGE SHAPES ARE NOT MEASURED (status $?)"
else
    say "DRAFTS OF LARGE SHAPES ARE SKIPPED: bench/gpu/rates.json is missing. Measure a real pair, and commit what it writes:"
    say "  python -m bench.speculation --model qwen2.5-coder-1.5b --draft qwen2.5-coder-0.5b --rates bench/gpu/rates.json"
fi
say "done"
exit "$status"
