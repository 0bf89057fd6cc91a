#!/usr/bin/env python3
"""Reads RUN/tensorboard with TensorBoard's own reader and compares it with the other files of the run.

Usage: python tools/check_tensorboard.py RUN        (a run of linea train --tensorboard; pip install tensorboard)

Scalars must match RUN/metrics.jsonl; images and texts must match RUN/samples. Exit code 1 on a mismatch.
"""
import json
import math
import pathlib
import struct
import sys
import zlib

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

KEEP_ALL = {"scalars": 0, "images": 0, "tensors": 0}


def float32(value):
    """A value of metrics.jsonl, rounded to float32 as TensorBoard stores it."""
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def expected_scalars(run):
    """metrics.jsonl as {name: [(step, value)]}."""
    expected = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        step = record.pop("step")
        for name, value in record.items():
            expected.setdefault(name, []).append((step, float32(value)))
    return expected


def png_size(png):
    """(width, height) of a PNG; checks its chunk CRCs and the length of its pixel data."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    offset, pixels, size = 8, b"", None
    while offset < len(png):
        length, kind = struct.unpack(">I4s", png[offset:offset + 8])
        data = png[offset + 8:offset + 8 + length]
        crc = struct.unpack(">I", png[offset + 8 + length:offset + 12 + length])[0]
        assert crc == zlib.crc32(kind + data), "wrong chunk CRC"
        if kind == b"IHDR":
            size = struct.unpack(">II", data[:8])
            channels = {0: 1, 2: 3}[data[9]]
        if kind == b"IDAT":
            pixels += data
        offset += 12 + length
    assert len(zlib.decompress(pixels)) == size[1] * (1 + channels * size[0]), "wrong length of pixel data"
    return size


def check(run):
    accumulator = EventAccumulator(str(run / "tensorboard"), size_guidance=KEEP_ALL)
    accumulator.Reload()
    tags = accumulator.Tags()
    problems = []
    expected = expected_scalars(run)
    if set(tags["scalars"]) != set(expected):
        problems.append(f"scalars {sorted(tags['scalars'])}, metrics.jsonl has {sorted(expected)}")
    count = 0
    for name in sorted(set(tags["scalars"]) & set(expected)):
        found = [(event.step, event.value) for event in accumulator.Scalars(name)]
        count += len(found)
        equal = len(found) == len(expected[name]) and all(
            a[0] == b[0] and same(a[1], b[1]) for a, b in zip(found, expected[name]))
        if not equal:
            problems.append(f"{name}: {found}, metrics.jsonl has {expected[name]}")

    images = {event.step: event for tag in tags["images"] for event in accumulator.Images(tag)}
    texts = {event.step: event.tensor_proto.string_val[0].decode()
             for tag in tags["tensors"] for event in accumulator.Tensors(tag)}
    for step, event in images.items():
        png = event.encoded_image_string
        if png_size(png) != (event.width, event.height):
            problems.append(f"the image of step {step} is {png_size(png)}, the event says {event.width, event.height}")
        if png != (run / "samples" / f"step-{step:08}.png").read_bytes():
            problems.append(f"the image of step {step} differs from samples/")
    for step, text_event in texts.items():
        text = (run / "samples" / f"step-{step:08}.txt").read_text()
        if text_event != "    " + text.replace("\n", "\n    "):
            problems.append(f"the text of step {step} differs from samples/")
    for kind, found in (("png", images), ("txt", texts)):
        steps = sorted(int(path.stem[5:]) for path in (run / "samples").glob("*." + kind))
        if steps != sorted(found):
            problems.append(f"samples/*.{kind} has steps {steps}, TensorBoard has {sorted(found)}")
    print(f"{count} scalars of {len(expected)} names, {len(images)} images, {len(texts)} texts", file=sys.stderr)
    return problems


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = check(pathlib.Path(sys.argv[1]))
    for problem in problems:
        print("check_tensorboard:", problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
