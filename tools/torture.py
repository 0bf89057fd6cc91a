#!/usr/bin/env python3
"""Kills training runs, stops them with signals and corrupts their checkpoints, at random moments. Each run is resumed
and must end with the same bits as an undisturbed run. Prints one line per mechanism and kind of disturbance; exit code
1 if anything differs. The tests contain a smaller version.

    python3 tools/torture.py [--program build/release/linea] [--kills 200] [--signals 60] [--flips 400] [--seed 1]
                             [--ranks 1]      above 1: by mpirun; one of the ranks is killed, SIGUSR1 stops all
"""
import argparse
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 400
# Short steps and frequent saves: most kills hit a save. The list covers each mechanism with state of its own.
MODEL = "--layers 1 --heads 2 --dim 16 --ffn 32 --batch 2 --dropout 0.1 --accumulate 2"
RUNS = {
    "linear": f"--task copy --length 16 {MODEL} --attention linear",
    "performer": f"--task copy --length 16 {MODEL} --attention performer --features 6 --redraw 7",
    "vq": f"--task copy --length 16 {MODEL} --attention vq --codes 6",
    "soft-vq": f"--task digits --size 12 --levels 4 {MODEL} --attention soft-vq --codes 6 --anneal 0.2",
    "gated": f"--task digits --size 12 --levels 4 --output-head logistics {MODEL} --rule gated --spike-guard 1.5",
    "delta": f"--task digits --size 12 --levels 4 --class-token --flip {MODEL} --rule delta",
    "bf16": (f"--task digits --size 12 --levels 4 --class-token {MODEL.replace('16', '32')} --dtype bf16 --optimizer muon "
             "--layer-convolution 2d"),
}
COMMON = f"--steps {STEPS} --save-every 5 --eval-every 50 --sample-every 100 --keep-last 3 --keep-every 100"
CLOCK = ("tokens_per_s", "elapsed_s", "peak_bytes", "wait_share", "max_wait_share")
MPIRUN = "mpirun --oversubscribe --allow-run-as-root --bind-to none --mca btl self,vader -n"


class Torture:
    def __init__(self, program, ranks, folder, rng):
        self.program, self.ranks, self.folder, self.rng = os.path.abspath(program), ranks, folder, rng
        self.differences = 0

    def start(self, flags):
        launcher = [*MPIRUN.split(), str(self.ranks)] if self.ranks > 1 else []
        return subprocess.Popen([*launcher, self.program, "train", *flags.split()], cwd=self.folder,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self, flags):
        process = self.start(flags)
        _, stderr = process.communicate(timeout=600)
        return process.returncode, stderr

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def fail(self, what):
        self.differences += 1
        print("  DIFFERS:", what, flush=True)

    def undisturbed(self, name):
        began = time.monotonic()
        code, stderr = self.finish(f"{RUNS[name]} {COMMON} --out straight-{name}")
        if code != 0:
            sys.exit(f"the undisturbed run of {name} failed: {stderr}")
        return time.monotonic() - began

    def resume_flags(self, run, name):
        """Resumes the run; starts it again where nothing is saved yet."""
        if not os.path.exists(self.path(run, "config.toml")) or not self.checkpoints(run):
            shutil.rmtree(self.path(run), ignore_errors=True)
            return f"{RUNS[name]} {COMMON} --out {run}"
        return f"--resume {run}"

    def checkpoints(self, run):
        folder = self.path(run, "checkpoints")
        return sorted(entry for entry in os.listdir(folder) if entry.startswith("step-")) if os.path.isdir(folder) else []

    def metrics(self, run):
        with open(self.path(run, "metrics.jsonl"), encoding="utf-8") as lines:
            return [{key: value for key, value in json.loads(line).items() if key not in CLOCK} for line in lines]

    def compare(self, run, name):
        """Compares the checkpoints, their names, metrics.jsonl and the samples."""
        straight = f"straight-{name}"
        if self.checkpoints(run) != self.checkpoints(straight):
            self.fail(f"{run}: checkpoints {self.checkpoints(run)}, undisturbed {self.checkpoints(straight)}")
            return
        for folder in [f"checkpoints/{step}" for step in self.checkpoints(run)] + ["samples"]:
            for file in sorted(os.listdir(self.path(straight, folder))):
                one, other = self.path(run, folder, file), self.path(straight, folder, file)
                if not os.path.exists(one) or not filecmp.cmp(one, other, shallow=False):
                    self.fail(f"{one}")
        if self.metrics(run) != self.metrics(straight):
            self.fail(f"{run}/metrics.jsonl")
        drafts = [entry for entry in os.listdir(self.path(run, "checkpoints")) if not entry.startswith(("step-", "bad-"))]
        if drafts:
            self.fail(f"{run}: unfinished checkpoints: {drafts}")

    def disturbed(self, name, count, seconds, disturb):
        """Disturbs runs of one mechanism, each until it ends, `count` times in total."""
        done = runs = 0
        while done < count:
            run = f"run-{name}-{runs}"
            runs += 1
            while True:
                process = self.start(self.resume_flags(run, name))
                try:
                    process.wait(self.rng.uniform(0, 0.6 * seconds) if done < count else 600)
                    code = process.returncode
                    stderr = process.stderr.read()
                    if code == 0:
                        break
                    self.fail(f"{run}: exit {code}: {stderr}")
                    break
                except subprocess.TimeoutExpired:
                    done += 1
                    problem = disturb(process, run)
                    if problem:
                        self.fail(f"{run}: {problem}")
            self.compare(run, name)
            shutil.rmtree(self.path(run), ignore_errors=True)
        return done, runs

    def kill(self, process, run):
        pids = [process.pid]
        if self.ranks > 1:  # the launcher ends the others, or itself where it has started none
            children = subprocess.run(["pgrep", "-P", str(process.pid)], stdout=subprocess.PIPE, text=True, check=False)
            pids = children.stdout.split() or pids
        os.kill(int(self.rng.choice(pids)), signal.SIGKILL)
        process.communicate(timeout=60)
        return ""

    def stop(self, process, run):
        number = self.rng.choice([signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1])
        if self.ranks > 1:
            number = signal.SIGUSR1  # after the others Open MPI's launcher does not wait for ranks that save
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
        # A signal before the handlers are installed has its default effect; after the last step it has none.
        early = 75 if "run in" in stderr else process.returncode if self.ranks > 1 else -number
        return "" if process.returncode in (75, 0, early) else f"signal {number}: exit {process.returncode}: {stderr}"

    def flip(self, name, count):
        """Flips bits in the newest checkpoint: each must be detected, and the run must end the same."""
        straight = self.path(f"straight-{name}", "checkpoints")
        newest = self.checkpoints(f"straight-{name}")[-1]
        files = sorted(os.listdir(os.path.join(straight, newest)))
        for _ in range(count):
            file = self.rng.choice(files)
            path = self.path("flipped", "checkpoints", newest, file)
            shutil.rmtree(self.path("flipped"), ignore_errors=True)
            shutil.copytree(self.path(f"straight-{name}"), self.path("flipped"))
            with open(path, "r+b") as changed:
                offset = self.rng.randrange(os.path.getsize(path))
                changed.seek(offset)
                byte = changed.read(1)[0] ^ (1 << self.rng.randrange(8))
                changed.seek(offset)
                changed.write(bytes([byte]))
            code, stderr = self.finish("--resume flipped")
            if code != 0 or newest not in stderr or "using the checkpoint before it" not in stderr:
                self.fail(f"{file}, byte {offset}: exit {code}: {stderr}")
            else:
                self.compare("flipped", name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/linea")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--signals", type=int, default=60)
    parser.add_argument("--flips", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where ignored, the runs would ignore them too
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with tempfile.TemporaryDirectory(prefix="linea-torture-") as folder:
        torture = Torture(options.program, options.ranks, folder, random.Random(options.seed))
        mechanisms = len(RUNS)
        for name in RUNS:
            seconds = torture.undisturbed(name)
            for kind, count, disturb in (("kill -9", options.kills, torture.kill),
                                         ("signals", options.signals, torture.stop)):
                done, runs = torture.disturbed(name, -(-count // mechanisms), seconds, disturb)
                print(f"{name:10} {kind:8} {done:4} in {runs:3} runs", flush=True)
            torture.flip(name, -(-options.flips // mechanisms))
            print(f"{name:10} flipped bits {-(-options.flips // mechanisms)}", flush=True)
            shutil.rmtree(torture.path(f"straight-{name}"))
        print(f"{torture.differences} differences")
        sys.exit(1 if torture.differences else 0)


if __name__ == "__main__":
    main()
