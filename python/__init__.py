"""Linea: training Performers and linear Transformers. The program `linea`, and

    import linea_attention

    for metrics in linea_attention.train(out="runs/mine", preset="digits-demo", steps=200):
        print(metrics)                             # the lines of runs/mine/metrics.jsonl
    model = linea_attention.load("runs/mine")      # in NumPy, see linea_attention.linea_model
    logits = model.logits([5, 3, 8])               # [3, vocabulary]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from importlib import metadata

__version__ = metadata.version("linea-attention")
PROGRAM = pathlib.Path(__file__).parent / "bin" / "linea"


def load(run):
    """The model of a run, a checkpoint folder or a model.safetensors file, in NumPy."""
    from . import linea_model
    return linea_model.load(run)


def _options(settings):
    for name, value in settings.items():
        option = "--" + name.replace("_", "-")
        yield from [option] if value is True else [] if value is None or value is False else [option, str(value)]


def train(out, **settings):
    """Runs `linea train --out OUT` and yields the objects of OUT/metrics.jsonl as they are written: of training, with the
    step and the loss, and of validation. OUT is a new folder; `linea train --resume` continues a run. Settings are the
    program's options, such as preset="digits-demo", lr=1e-3, recompute=True; those that are False or None are left out.
    The program ends, and saves, where the loop is left, at max_time, or by a signal to it. RuntimeError: the program
    failed; its message.
    """
    path = pathlib.Path(out) / "metrics.jsonl"
    written = path.stat().st_size if path.exists() else 0  # of a run that is there, which the program refuses
    with tempfile.TemporaryFile() as messages:
        program = subprocess.Popen([PROGRAM, "train", "--out", os.fspath(out), *_options(settings)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=messages)
        try:
            ended = False
            while not ended:
                ended = program.poll() is not None  # before reading, so that the last lines are read
                if path.exists():
                    with path.open("rb") as lines:
                        lines.seek(written)
                        text = lines.read()
                    whole = text[:text.rfind(b"\n") + 1]
                    written += len(whole)
                    yield from map(json.loads, whole.splitlines())
                if not ended:
                    time.sleep(0.05)
        finally:
            program.terminate()
            program.wait()
        if program.returncode not in (0, 75):  # 75: it was stopped, and saved
            messages.seek(0)
            raise RuntimeError(messages.read().decode(errors="replace").strip() or f"linea: exit code {program.returncode}")


def main():
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
