#!/usr/bin/env python3
"""Reads RUN/tensorboard by TensorBoard's own reader and compares it with the rest of the run.

Usage: python tools/check_tensorboard.py RUN        (a run of linea train --tensorboard; pip install tensorboard)

Scalars must be those of RUN/metrics.jsonl, images and texts those of RUN/samples. Exit code 1 where they are not.
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
    """What metrics.jsonl says, as a scalar of TensorBoard holds it."""
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def expected_scalars(run):
    """{name: [(step, value)]} of metrics.jsonl."""
    expected = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        step = record.pop("step")
        for name, value in record.items():
            expected.setdefault(name, []).append((step, float32(value)))
    return expected


def unpacked_png(png):
    """Size of a PNG whose chunks are whole and whose pixels inflate."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
    at, pixels, size = 8, b"", None
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        data = png[at + 8:at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + data), "a chunk's CRC"
        if kind == b"IHDR":
            size = struct.unpack(">II", data[:8])
            channels = {0: 1, 2: 3}[data[9]]
        if kind == b"IDAT":
            pixels += data
        at += 12 + length
    assert len(zlib.decompress(pixels)) == size[1] * (1 + channels * size[0]), "pixels are missing"
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
        alike = len(found) == len(expected[name]) and all(
            a[0] == b[0] and same(a[1], b[1]) for a, b in zip(found, expected[name]))
        if not alike:
            problems.append(f"{name}: {found}, metrics.jsonl has {expected[name]}")

    images = {event.step: event for tag in tags["images"] for event in accumulator.Images(tag)}
    texts = {event.step: event.tensor_proto.string_val[0].decode()
             for tag in tags["tensors"] for event in accumulator.Tensors(tag)}
    for step, event in images.items():
        png = event.encoded_image_string
        if unpacked_png(png) != (event.width, event.height):
            problems.append(f"the image of step {step} is {unpacked_png(png)}, not {event.width, event.height}")
        if png != (run / "samples" / f"step-{step:08}.png").read_bytes():
            problems.append(f"the image of step {step} is not that of samples/")
    for step, shown in texts.items():
        text = (run / "samples" / f"step-{step:08}.txt").read_text()
        if shown != "    " + text.replace("\n", "\n    "):
            problems.append(f"the text of step {step} is not that of samples/")
    for kind, found in (("png", images), ("txt", texts)):
        steps = sorted(int(path.stem[5:]) for path in (run / "samples").glob("*." + kind))
        if steps != sorted(found):
            problems.append(f"samples/*.{kind} of steps {steps}, TensorBoard has {sorted(found)}")
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
