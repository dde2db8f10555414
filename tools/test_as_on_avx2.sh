#!/usr/bin/env bash
# Runs the whole-model tests as a host with AVX2 alone does, eager torch's kernels included. On such
# a host it does nothing, as these tests have run so with all others.
# Usage: tools/test_as_on_avx2.sh PYTHON [pytest options]
set -euo pipefail
cd "$(dirname "$0")/.."
for flag in avx512f avx512bw avx512dq avx512vl; do # as in emulator/kernels/choose_set.cpp
  if ! grep -qw "$flag" /proc/cpuinfo; then
    echo "[test] this host has AVX2 alone: the whole models were compared under it already"
    exit 0
  fi
done
# torch and MKL read theirs when they are loaded; oneDNN's holds for torch's copy and for ours.
export POPTORCH_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 \
  MKL_ENABLE_INSTRUCTIONS=AVX2
exec "$1" -m pytest "${@:2}" tests/clients/test_model_layers.py \
  tests/clients/test_whole_models.py tests/clients/test_placed_models.py
