#!/usr/bin/env bash
# Builds the program and its tests for ARM64 by Debian's cross compiler, runs the tests under qemu-user, and compares the
# losses of 20 steps with those of this machine's build. The system gets the compiler and qemu alone; the libraries for ARM64
# are unpacked by tools/arm64-sysroot.sh. --all also runs the tests of nn/, train/, judge/ and cli/ that say least
# about a processor; --losses runs no tests.
#
#   tools/check-arm64.sh [--all | --losses]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_missing "${linea_packages[@]}" "g++-aarch64-linux-gnu: compiles for ARM64" "qemu-user: runs what is built"
source tools/arm64-sysroot.sh
say "Build for ARM64"
cmake -S . -B build/arm64 -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE=cmake/arm64-linux.cmake \
  -DLINEA_SYSROOT="$sysroot" -DLINEA_WERROR=ON -DLINEA_MPI=OFF -DLINEA_CUDA=OFF -DLINEA_EMULATED_TESTS=OFF >build/arm64.log
programs=(test_base test_parallel test_tensor test_autograd test_nn test_data test_train test_judge test_cli)
cmake --build build/arm64 --target linea "${programs[@]}"

# Threads that wait for each other keep each other from the cores, so one has to do.
export OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000
if [ "${1:-}" != --losses ]; then
  say "Tests under qemu"
  # The system's /proc/self/exe is qemu: a program that restarts itself or compares its file, the commands of lessons. A limit
  # of memory holds for qemu, too. The others take long and depend on no processor.
  left_out='^(TunedLibraries.StartsTheProgramAgain|System.KnowsItsProgram|Lab|OutOfMemoryTest.AProcessLimitDoesNotHang|Sabotage|Products/ThreadCounts'
  left_out+='|Attentions/Bf16Conformance|CompareTest|Resume.AStopDuringSamplingIsHonored|Bf16Training.IsNearFloatAndRepeatsItsBits)'
  some=(-R '^(Attentions/Conformance|FeatureMap|Gates|OutputHead|Optimizer|Muon|Gdn|Performer|Vq|Resume|Bf16Training|InstructionSets|CommandLine|Terminal)')
  [ "${1:-}" != --all ] || some=()
  run_tests arm64 -L '^(base|parallel|tensor|autograd|data)$' -E "$left_out"
  run_tests arm64 -L '^(nn|train|judge|cli)$' -E "$left_out" "${some[@]}"
fi

say "Losses of digits-demo"
EXTRA=(-DLINEA_WERROR=ON -DLINEA_NATIVE=OFF)
build release linea
rm -rf build/arm64-losses
train=(train --preset digits-demo --steps 20)
build/release/linea "${train[@]}" --out build/arm64-losses/here >/dev/null 2>&1
qemu-aarch64 -L "$sysroot" build/arm64/linea "${train[@]}" --out build/arm64-losses/arm64 >/dev/null 2>&1 &
# The evaluation that follows takes longer than the steps.
until grep -qs '"step":20,' build/arm64-losses/arm64/metrics.jsonl || ! kill -0 $! 2>/dev/null; do sleep 1; done
kill $! 2>/dev/null || true
python3 - build/arm64-losses/{here,arm64}/metrics.jsonl <<'EOF'
import json, sys
here, there = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
assert len(there) >= 2, "the run on ARM64 ended early"
for a, b in list(zip(here, there))[:2]:
    assert a["step"] == b["step"]
    for key in ("loss", "grad_norm"):
        print(f"step {a['step']}  {key}  {a[key]:.9f}  on ARM64 {b[key]:.9f}")
        assert abs(a[key] - b[key]) <= 1e-5 * abs(a[key]), "they differ by more than rounding"
EOF
