#!/usr/bin/env python3
"""Recomputes the exact numbers of lessons/ from their formulas, with fractions where they are rational, and compares
them with the lessons: lines of `expect exact`, and answers of exercises. It shares nothing with the program.

tools/check.sh runs it.
"""
import json
import math
import pathlib
import re
import sys
from fractions import Fraction

LESSONS = pathlib.Path(__file__).resolve().parent.parent / "lessons"


def load(name):
    return json.loads((LESSONS / name).read_text())


def number(x):
    x = float(x)
    return str(round(x)) if abs(x - round(x)) <= 5e-7 else f"{x:.6f}"


def lines(name, rows):
    """As the program prints a matrix, one blank apart."""
    rows = [" ".join(map(number, row)) for row in rows]
    return [f"{name} {rows[0]}"] + rows[1:]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def elu(x):
    return [Fraction(c + 1) if c >= 0 else Fraction(math.exp(c)) for c in x]


def mean(weights, values):
    return [sum(w * v[m] for w, v in zip(weights, values)) / sum(weights) for m in range(len(values[0]))]


def outer_sum(features, values):
    return [[sum(f[i] * v[m] for f, v in zip(features, values)) for m in range(len(values[0]))]
            for i in range(len(features[0]))]


def toy():
    q, k, v = (load("toy.json")[name] for name in "qkv")
    weights = []
    for i in range(3):
        row = [math.exp(dot(q[i], k[j]) / math.sqrt(2)) for j in range(i + 1)] + [0] * (2 - i)
        weights.append([a / sum(row) for a in row])
    yield "01-mean", lines("weights", weights) + lines("y", [mean(row, v) for row in weights])

    fq, fk = [elu(x) for x in q], [elu(x) for x in k]
    a = [[dot(x, y) for y in fk] for x in fq]
    S, z = outer_sum(fk, v), [sum(column) for column in zip(*fk)]
    yield "02-brackets", (
        lines("phi(q)", fq) + lines("phi(k)", fk) + lines("phi(q).phi(k)", a) +
        lines("weights", [[x / sum(row) for x in row] for row in a]) + lines("S", S) + lines("z", [z]) +
        lines("y", [mean(row, v) for row in a]))

    steps = []
    for t in range(1, 4):
        S, z = outer_sum(fk[:t], v[:t]), [sum(column) for column in zip(*fk[:t])]
        y = [sum(fq[t - 1][f] * S[f][m] for f in range(2)) / dot(fq[t - 1], z) for m in range(2)]
        steps += [f"t = {t}"] + lines("S", S) + lines("z", [z]) + lines("y", [y])
    yield "03-order", steps

    before, z2 = outer_sum(fk[:2], v[:2]), [sum(column) for column in zip(*fk[:2])]
    read = [sum(fq[2][f] * before[f][m] for f in range(2)) for m in range(2)]
    own = [a[2][2] * x for x in v[2]]
    both = [dot(fq[2], z2), a[2][2]]
    yield "04-forms", (
        ["positions 3 to 3"] + lines("S before", before) + lines("z before", [z2]) + lines("phi(q) S", [read]) +
        lines("sum a v", [own]) + lines("phi(q).z", [both[:1]]) + lines("sum a", [both[1:]]) +
        lines("y", [[(r + o) / sum(both) for r, o in zip(read, own)]]))

    # y_3 alone has a gradient, (1,0), so that R and r are those of its query; phi' is 1.
    d = dot(fq[2], z)
    y = mean(a[2], v)
    n, e = [1 / d, Fraction(0)], -y[0] / d
    dq = [sum(n[m] * S[f][m] for m in range(2)) + e * z[f] for f in range(2)]
    dk = [[fq[2][f] * (dot(n, value) + e) for f in range(2)] for value in v]
    yield "05-backward", (lines("dq", [[0, 0], [0, 0], dq]) + lines("dk", dk) +
                          lines("dv", [[a[2][j] * x for x in n] for j in range(3)]))


def gate():
    S = z = Fraction(0)
    steps, given = [], load("gate.json")
    for t, ((v,), g) in enumerate(zip(given["v"], map(Fraction, given["gate"])), 1):
        S, z = g * S + (1 - g) * v, g * z + (1 - g)  # phi is 1
        steps += [f"t = {t}"] + lines("S", [[S]]) + lines("z", [[z]]) + lines("y", [[S / z]])
    yield "a-forgetting", steps


def write():
    beta = g = Fraction(1, 2)
    values = [v for v, in load("write.json")["v"]]  # written to A, B, A
    yield "c-delta", ["z 82 41"]  # phi of A and B have the length 41
    yield "c-delta", lines("y", [[Fraction(values[0] + values[2], 2)]])
    weights = [(1 - g) * g * g, 1 - g]
    yield "c-delta", lines("y", [[dot(weights, [values[0], values[2]]) / sum(weights)]])
    for decay in (Fraction(1), g):
        S = [Fraction(0), Fraction(0)]
        for row, v in zip((0, 1, 0), values):
            S = [decay * s for s in S]
            x = beta * (v - S[row])
            S[row] += x
        yield "c-delta", ["t = 3"] + lines("x", [[x]]) + lines("S", [[s] for s in S]) + lines("y", [[S[0]]])


def codes():
    given = load("codes.json")
    for sigma in (1, 0.5):
        p = [math.exp(-(given["k"][0][0] - c) ** 2 / (2 * sigma * sigma)) for c, in given["codebook"]]
        yield "b-codes", lines("phi(k)", [[x / sum(p) for x in p]])


ANSWERS = {
    "2.1": 1000 * (2 * 64 * 64 + 64), "2.3": (2 * 4096 * 64 + 4096) / 128,
    "3.1": math.floor(32 * 33 / 64) + 1, "4.1": 2 * (2 * 64 * 64 + 64 + 2 * 64 * 64) / 128,
    "5.2": 4 * 64 * 65 * 4 * 16384 / 2 ** 20, "6.3": 0.072 ** 4 / 30, "7.1": math.ceil((math.exp(2) - 1) / 0.01),
    "8.1": math.sqrt(2 * math.log(2)), "9.1": math.sqrt(126 * math.log(2) / 2), "10.4": 0.288 / math.log(2),
    "A.1": math.log(0.5) / math.log(0.99), "B.1": 1 / math.sqrt(math.log(9)), "C.1": 0.25 * 16 * 0.75 + 0.25 * 6,
    "C.2": math.ceil(math.log(0.01) / math.log(0.75)),
}


def main():
    wrong, compared = [], 0
    texts = {path.stem: path.read_text() for path in LESSONS.glob("*.md")}
    for source in (toy, gate, write, codes):
        for name, expected in source():
            blocks = re.findall(r"```expect exact\n(.*?)```", texts[name], re.S)
            found = ["\n".join(" ".join(line.split()) for line in block.strip().split("\n")) for block in blocks]
            compared += 1
            if "\n".join(expected) not in found:
                wrong.append(f"lessons/{name}.md: no `expect exact` is\n" + "\n".join(expected))
    for identifier, answer in re.findall(r"```question (\S+) number (\S+)", "\n".join(texts.values())):
        if identifier in ANSWERS:
            compared += 1
            if abs(float(answer) - ANSWERS[identifier]) > 0.002 * abs(ANSWERS[identifier]):
                wrong.append(f"exercise {identifier}: {answer}, but {ANSWERS[identifier]} by the formula")
    if compared != 13 + len(ANSWERS):
        wrong.append(f"lessons: {compared} comparisons")
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(bool(wrong))


main()
