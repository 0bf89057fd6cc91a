#!/usr/bin/env bash
# Runs linea by mpirun, with 1 to 4 ranks on whatever cores there are: the same losses, the same bits for the same number,
# resumed with another one, and every way for a rank to fail.
#
#     tests/ranks/test_ranks.sh LINEA MPIRUN PART
set -uo pipefail
export GOMP_SPINCOUNT=1000 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# MPI's launchers listen on all interfaces, so in a network of its own, where that is permitted and they work there.
if [ -z "${LINEA_OWN_NETWORK:-}" ]; then
  if unshare -rn bash -c 'ip link set lo up && timeout 20 "$0" -n 1 true' "$2" >/dev/null 2>&1; then
    LINEA_OWN_NETWORK=1 exec unshare -rn bash -c 'ip link set lo up && exec bash "$0" "$@"' "$0" "$@"
  fi
  echo "No network of its own: while this runs, mpirun listens on all interfaces of this machine"
fi
linea=$(realpath "$1") mpirun=$2 part=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

wrong() { echo "$*"; tail -n 15 err 2>/dev/null; exit 1; }
# Open MPI by shared memory alone: no rank opens a socket. MPICH's launcher has none of these options.
version=$("$mpirun" --version 2>&1)
options() { [[ $version == *HYDRA* ]] || echo "--oversubscribe --bind-to none --mca btl ${btl:-self,vader}${LINEA_OWN_NETWORK:+ --mca btl_tcp_if_include lo}"; }
launch() { timeout 120 "$mpirun" $(options) "$@"; }
# The processes that launcher $1 started, at the ends of its tree.
ranks_of() {
  local child
  for child in $(pgrep -P "$1"); do
    if pgrep -P "$child" >/dev/null; then ranks_of "$child"; else echo "$child"; fi
  done
}
# N WORDS...: linea on N ranks; the exit code is in $code, what it says in out and err.
on() {
  local ranks=$1
  shift
  launch -n "$ranks" "$linea" "$@" >out 2>err
  code=$?
}
# CODE PATTERN WORDS...: what is launched fails so, and says so.
refuses() {
  local expected=$1 pattern=$2
  shift 2
  launch "$@" >out 2>err
  code=$?
  [ $code = "$expected" ] && [ "$(grep -c '^linea: ' err)" = 1 ] && grep -qE "^linea: $pattern" err ||
    wrong "$*: code $code, not $expected, or not '$pattern'"
}
good() { on "$@"; [ $code = 0 ] || wrong "linea on $*: code $code"; }
# CODE PATTERN N WORDS...: linea on N ranks.
fails() { refuses "$1" ".*$2" -n "$3" "$linea" "${@:4}"; }
train="train --task digits --size 12 --levels 4 --examples 200 --layers 2 --heads 2 --dim 16 --ffn 32 --batch 5 --threads 1"
# Losses of the run $1 are those of $2, within the share $3, where both have one.
alike() {
  python3 - "$@" <<'END' || wrong "the losses of $1 are not those of $2"
import json, sys
def losses(run):
    lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
    return {(key, line["step"]): line[key] for line in lines for key in ("loss", "val_loss") if key in line}
one, other, share = losses(sys.argv[1]), losses(sys.argv[2]), float(sys.argv[3])
both = one.keys() & other.keys()
assert both, (one, other)
for key in both:
    assert abs(one[key] / other[key] - 1) <= share, (key, one[key], other[key])
END
}
same() { diff -r "$1/checkpoints" "$2/checkpoints" >err || wrong "$1 and $2 differ"; }

case $part in
losses)
  "$linea" $train --steps 20 --dropout 0.1 --out alone >out 2>err || wrong "alone"
  for ranks in 1 2 3 4; do
    good $ranks $train --steps 20 --dropout 0.1 --out of$ranks
    alike of$ranks alone 1e-4
  done
  same of1 alone
  good 3 $train --steps 20 --dropout 0.1 --out again
  same again of3
  LINEA_OVERLAP=0 LINEA_CHECK_EXCHANGES=1 good 3 $train --steps 20 --dropout 0.1 --out later
  same later of3
  btl=self,tcp good 3 $train --steps 20 --dropout 0.1 --out tcp
  same tcp of3
  "$linea" eval alone --json >one 2>err || wrong "eval"
  cp alone/checkpoints/*/model.safetensors .
  good 2 eval model.safetensors --json
  python3 -c 'import json; a, b = json.load(open("one")), json.load(open("out"))
assert a["tokens"] == b["tokens"] and abs(a["loss"] / b["loss"] - 1) < 1e-6, (a, b)' || wrong "eval differs"
  [ "$(wc -l <out)" = 1 ] || wrong "not one line of JSON"
  "$linea" sample model.safetensors --count 5 --out alone.png >out 2>err || wrong "sample"
  good 3 sample model.safetensors --count 5 --out of3.png
  cmp alone.png of3.png || wrong "samples differ"
  good 2 bench train --preset digits-demo --batch 4 --steps 2 --warmup 1 --json
  grep -q '"ranks":2,"sequence_ranks":1,"wait_share":' out || wrong "bench train does not measure two ranks"
  good 2 bench scaling --preset digits-demo --batch 4 --repeats 1 --network 30,1.1 --json
  python3 -c 'import json; x = json.load(open("out"))
assert x["ranks"] == 2 and x["shared_computed_s"] > 0 and len(x["computed"][0]["weak"]) == 4, x
assert sum(bucket["floats"] for bucket in x["buckets"]) > 10000, x' || wrong "bench scaling does not say its times"
  good 2 info --json
  python3 -c 'import json; x = json.load(open("out"))["ranks"]
assert (x["count"], x["hosts"]) == (2, 1) and x["library"], x
assert 0 < x["alpha_s"] < 0.1 < x["beta_bytes_per_s"], x' || wrong "info does not say its ranks"
  good 2 info
  grep -q "^ranks  *2 on 1 host, .* a message takes " out || wrong "info does not say its ranks"
  good 2 bench scaling --preset listops-small --attention linear --layers 1 --batch 2 --repeats 1
  fails 2 "compares several processes" 1 bench scaling --preset digits-demo
  # Each of Muon's matrices is orthogonalized by one rank.
  "$linea" $train --steps 4 --optimizer muon --out muon >out 2>err || wrong "muon"
  good 3 $train --steps 4 --optimizer muon --out muon3
  alike muon3 muon 1e-4
  # An unequal split of accumulated batches; what vq learns without gradients; a resumed run has other ranks.
  more="$train --accumulate 2 --attention vq --codes 4 --save-every 10 --decay-steps 20"
  "$linea" $more --steps 20 --out vq >out 2>err || wrong "vq"
  good 3 $more --steps 10 --out vq3
  good 2 train --resume vq3 --steps 20
  grep -qF "ranks was 3, is 2" err || wrong "no note of other ranks"
  alike vq3 vq 1e-4
  ;;
parts)
  for i in $(seq 1500); do printf '%d has %d; ' $i $((i * 7 % 100)); done >t.txt
  model="--layers 2 --heads 4 --dim 32 --ffn 64 --threads 1"
  text="train --task text --data t.txt --length 600 --batch 2 --steps 4 --eval-every 4 $model"
  for attention in "performer --features 16" "linear --rule gated-delta --layer-convolution 1d --dropout 0.1"; do
    rm -rf whole of2 of4 again
    "$linea" $text --attention $attention --out whole >out 2>err || wrong "whole sequences"
    good 2 $text --attention $attention --sequence-ranks 2 --out of2
    good 4 $text --attention $attention --sequence-ranks 2 --out of4
    alike of2 whole 1e-4
    alike of4 whole 1e-4
    good 2 $text --attention $attention --sequence-ranks 2 --out again
    same again of2
  done
  btl=self,tcp good 4 $text --attention $attention --sequence-ranks 4 --out tcp
  alike tcp whole 1e-4
  # More ranks than tiles: a scan.
  one="${text/--batch 2/--batch 1} --attention performer --features 16"
  "$linea" $one --out one >out 2>err || wrong "one sequence"
  good 4 $one --sequence-ranks 4 --out one4
  alike one4 one 1e-4
  good 4 $one --sequence-ranks 4 --out one4again
  same one4again one4
  # The settings of cifar10-small. It is resumed with whole sequences.
  image="train --task digits --size 16 --levels 4 --class-token --examples 200 --batch 4 --rule gated --memory long --positions learned+grid"
  image="$image --layer-convolution 2d --class-embedding every --attention-output gated --optimizer muon --dtype bf16 $model"
  "$linea" $image --steps 8 --decay-steps 8 --eval-every 4 --out image >out 2>err || wrong "whole images"
  good 2 $image --sequence-ranks 2 --steps 4 --decay-steps 8 --eval-every 4 --out image2
  fails 2 "is 2, which does not divide the number of processes, 3" 3 train --resume image2 --steps 8
  "$linea" train --resume image2 --sequence-ranks 1 --steps 8 >out 2>err || wrong "resumed with whole images"
  alike image2 image 1e-2
  fails 2 "softmax has no state of fixed size" 2 $text --attention softmax --sequence-ranks 2 --out none
  fails 2 "sequences of 100 positions have less than 64 for each of 2 parts" 2 ${text/600/100} --sequence-ranks 2 --out none
  fails 2 "which does not divide the number of processes, 1" 1 $text --sequence-ranks 2 --out none
  [ ! -e none ] || wrong "a refused run has a folder"
  ;;
device)  # a program on the emulated GPU, of which there are three
  export LINEA_EMULATOR_DEVICES=3
  printf '%d has 7; ' $(seq 100) >t.txt
  text="train --task text --data t.txt --length 128 --steps 4 --layers 1 --heads 4 --dim 16 --ffn 16 --threads 1"
  # NAME RANKS PARTS WORDS...: a run on so many devices is that on the CPU, and another one has its bits.
  on_devices() {
    "$linea" "${@:4}" --out $1.cpu >out 2>err || wrong "$1 on the CPU"
    for run in $1 $1.again; do good $2 "${@:4}" --sequence-ranks $3 --device cuda --out $run; done
    alike $1 $1.cpu 1e-4
    same $1.again $1
  }
  on_devices alone 1 1 $text --batch 3
  on_devices rows 2 1 $text --batch 3
  on_devices three 3 1 $text --batch 3 --optimizer muon
  # States of 8 batch heads are handed on, those of 4 combined by a scan.
  on_devices handed 2 2 $text --batch 2 --attention linear --rule gated-delta --layer-convolution 1d
  on_devices scanned 2 2 $text --batch 1 --attention linear --rule gated
  fails 2 "has 3 CUDA devices" 4 $text --batch 4 --device cuda --out none
  ;;
resume)
  "$linea" $train --steps 30 --decay-steps 30 --save-every 10 --sample-every 10 --eval-every 10 --out alone >out 2>err || wrong "alone"
  good 2 $train --steps 10 --decay-steps 30 --save-every 10 --sample-every 10 --eval-every 10 --out run
  good 3 train --resume run --steps 20
  "$linea" train --resume run --steps 30 >out 2>err || wrong "resumed alone"
  alike run alone 1e-3
  # A signal to one rank stops all after the same step.
  "$mpirun" $(options) -n 2 "$linea" $train --steps 100000 --out stopped >out 2>err &
  for _ in $(seq 200); do [ -s stopped/metrics.jsonl ] && break; sleep 0.1; done
  kill -USR1 $!
  wait $!
  code=$?
  [ $code = 75 ] || wrong "stopped: code $code"
  [ "$(grep -c 'and saved (SIGUSR1)' err)" = 1 ] || wrong "no note of the stop"
  ls stopped/checkpoints/*/model.safetensors >out || wrong "not saved"
  ;;
failures)
  fails 2 "there is no option '--stepz'" 2 train --stepz 3
  fails 2 "linea presets is the work of one process" 2 presets
  fails 2 "linea bench attention is the work of one process" 2 bench attention
  fails 2 "6 ranks share the 5 sequences of a step" 6 $train --steps 2 --out none
  [ ! -e none ] || wrong "a refused run has a folder"
  fails 3 "no.txt" 2 train --task text --data no.txt --out none
  good 2 $train --steps 1 --out there
  fails 2 "already holds a run" 2 $train --steps 1 --out there
  short="$train --steps 5 --out none"
  refuses 2 "rank 1 on .*: lr is 0.002, rank 0: 0.001" -n 1 "$linea" $short : -n 1 "$linea" $short --lr 0.002
  printf 'abcdefghij%.0s' $(seq 100) >a.txt
  printf 'abcdefghji%.0s' $(seq 100) >b.txt
  text="train --task text --length 16 --layers 1 --heads 2 --dim 16 --ffn 32 --batch 2 --threads 1 --steps 5 --out none"
  refuses 3 "rank 1 on .*: its data are others" -n 1 "$linea" $text --data a.txt : -n 1 "$linea" $text --data b.txt
  cp "$linea" other && printf x >>other
  # A program without the module of MPI next to it is one that was built without MPI.
  refuses 2 "(Open MPI's mpirun|MPICH's mpiexec) started 2 of this program, which was built without MPI" -n 2 ./other $short
  cp "$(dirname "$linea")/linea-mpi.so" .
  refuses 2 "rank 1 on .*: another program" -n 1 "$linea" $short : -n 1 ./other $short
  # Memory of one rank: refused on all before the run, and in a step the end of all.
  big="${train/--batch 5/--batch 4800} --steps 3 --out none"
  little() { refuses 5 "$1" -n 1 "$linea" $2 : -n 1 bash -c "ulimit -v $3; exec \"$linea\" $2"; }
  little "rank 1 on .*" "$big" 1000000
  [ ! -e none ] || wrong "a refused run has a folder"
  little "rank 1 on .*: out of memory" "$big --no-memory-check" 1000000
  # A rank that is killed ends all, and the run continues from its last save; one that is stopped is named.
  for signal in KILL STOP; do
    "$mpirun" $(options) -n 2 "$linea" $train --steps 100000 \
      --save-every 20 --comm-timeout 3s --out lost$signal >out 2>err &
    launcher=$!
    for _ in $(seq 300); do ls lost$signal/checkpoints/*/model.safetensors >/dev/null 2>&1 && break; sleep 0.1; done
    rank=$(ranks_of $launcher | tail -n 1)
    kill -$signal "$rank"
    for _ in $(seq 200); do kill -0 $launcher 2>/dev/null || break; sleep 0.1; done
    kill -0 $launcher 2>/dev/null && wrong "$signal: still runs"
    wait $launcher
    code=$?
    [ $signal = KILL ] && [ $code = 0 ] && wrong "a killed rank: code 0"
    if [ $signal = STOP ]; then
      [ $code = 7 ] || wrong "a stopped rank: code $code"
      grep -qE "rank 1 on .* has not answered for 3 s" err || wrong "the rank is not named"
    fi
    step=$(ls lost$signal/checkpoints | grep -oE '[0-9]+' | tail -n 1)
    good 3 train --resume lost$signal --steps $((10#$step + 5))
  done
  ;;
esac
