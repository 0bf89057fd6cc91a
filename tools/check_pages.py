#!/usr/bin/env python3
"""Checks the pages of a lab as files: sizes, that nothing is loaded, where numbers come from, names of images, formulas.

tools/check-pages.sh runs it:  check_pages.py LAB
"""
import base64
import hashlib
import html.parser
import json
import math
import pathlib
import re
import struct
import sys
import zlib

MAX_ALL, MAX_LESSON, MAX_RUN = 3_000_000, 320_000, 500_000  # bytes; all: with one run
SIDE_PAGES = ("index", "letters", "map", "questions", "teacher")
MIN_NAME = 40  # characters of an image's name
# No source is needed in these: code, formulas, times, drawings (whose names are checked), choices of a figure.
EXEMPT_TAGS = {"code", "pre", "math", "time", "data", "style", "script", "svg", "label", "title", "nav"}
EXEMPT_CLASSES = {"id"}
VOID = {"meta", "input", "img", "br", "link", "hr"}
# Two digits or more, or a point; not parts of words such as float32.
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])")
# cividis at eighths, of which an image shows 65 steps.
RAMP = ((0, 32, 76), (20, 53, 109), (60, 77, 110), (91, 98, 110), (124, 123, 120), (154, 147, 118), (187, 173, 108),
        (221, 202, 89), (255, 233, 69))
PROVENANCE = ("command", "version", "machine", "threads", "seed", "seconds")
FUNCTIONS = {name: getattr(math, name) for name in ("exp", "sqrt", "floor", "ceil")} | {"ln": math.log}


def colors(png):
    """Rows of colors of an RGB image without filters."""
    width, height = struct.unpack(">II", png[16:24])
    at, packed = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        packed += png[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    rows = [row for row in struct.iter_unpack(f"{1 + 3 * width}s", zlib.decompress(packed))]
    return [[tuple(row[0][1 + 3 * x:4 + 3 * x]) for x in range(width)] for row in rows[:height]]


def step_of(color):
    """The step of 64 whose color is nearest."""
    def at(step):
        below = min(step // 8, 7)
        return [a + (b - a) * (step / 8 - below) for a, b in zip(RAMP[below], RAMP[below + 1])]
    return min(range(65), key=lambda step: sum((a - b) ** 2 for a, b in zip(at(step), color)))


class Page(html.parser.HTMLParser):
    def __init__(self, path, data):
        super().__init__(convert_charrefs=True)
        self.path, self.data, self.wrong = path, data, []
        self.open, self.ids, self.labels, self.figures = [], set(), [], []
        self.text, self.number, self.formulas, self.sources, self.policy = "", None, [], {"style": [], "script": []}, ""
        self.numbers = 0

    def say(self, message):
        self.wrong.append(f"{self.path.name}:{self.getpos()[0]}: {message}")

    def classes(self):
        return {name for _, attributes in self.open for name in attributes.get("class", "").split()}

    def handle_starttag(self, tag, pairs):
        attributes = {name: value or "" for name, value in pairs}
        if "style" in attributes or any(name.startswith("on") for name in attributes):
            self.say(f"<{tag}> has a style or a handler of its own, which the policy blocks")
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name, "")
            if name == "href" and tag == "a":
                file, _, place = value.partition("#")
                page = self.path.parent / file
                if not re.match(r"https?:", value) and file and not (
                        page.exists() and (not place or f'id="{place}"' in page.read_text())):
                    self.say(f"the link to {value} leads nowhere")
            elif value and not value.startswith("data:") and not value.startswith("#"):
                self.say(f"<{tag} {name}={value}> loads something")
        if tag == "link" or attributes.get("type") == "module":
            self.say(f"<{tag}> loads something")
        if "id" in attributes:
            if attributes["id"] in self.ids:
                self.say(f"two elements have the id {attributes['id']}")
            self.ids.add(attributes["id"])
        if tag == "label":
            self.labels.append(attributes.get("for", ""))
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag == "figure":
            self.figures.append([attributes.get("id", ""), 0])
        if tag in ("svg", "img"):
            self.image(tag, attributes)
        if tag == "math":
            self.formulas.append("")
        if tag not in VOID:
            self.open.append((tag, attributes))
        if tag == "data":
            self.number = ""

    def image(self, tag, attributes):
        name = attributes.get("alt" if tag == "img" else "aria-label", "")
        if self.figures and any(open_tag == "figure" for open_tag, _ in self.open):
            self.figures[-1][1] += 1
        if tag == "svg" and "chart" in attributes.get("class", ""):
            return  # its <desc> is its longer name
        if len(name) < MIN_NAME or not re.search(r"\d", name):
            self.say(f"<{tag}> has the name '{name}': at least {MIN_NAME} characters, with a number")

        if "data-from" in attributes:
            self.check_cells(attributes)

    def value_at(self, place):  # FILE#/pointer
        name, pointer = place.split("#")
        value = self.data[name]
        for part in pointer.split("/")[1:]:
            value = value[int(part) if isinstance(value, list) else part]
        return value

    def check_cells(self, attributes):  # five of an image of a matrix
        values, rows = self.value_at(attributes["data-from"]), colors(base64.b64decode(attributes["src"].split(",")[1]))
        least, largest = float(attributes["data-least"]), float(attributes["data-largest"])
        for n in range(5):
            i, j = n * (len(values) - 1) // 4, (7 * n + 3) % len(values[0])
            shown = least + step_of(rows[i][j]) / 64 * (largest - least)
            if abs(shown - min(max(values[i][j], least), largest)) > 1.01 * (largest - least) / 128:
                self.say(f"cell {i}, {j} of {attributes['data-from']} is {values[i][j]} and has the color of {shown:.4g}")

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open[-1][0] != tag:
            return self.say(f"</{tag}> closes <{self.open[-1][0] if self.open else ''}>")
        _, attributes = self.open.pop()
        if tag == "data":
            self.check_number(attributes, self.number)
            self.number = None

    def handle_data(self, text):
        tags = {tag for tag, _ in self.open}
        if self.number is not None:
            self.number += text
        if self.open and self.open[-1][0] in self.sources:
            self.sources[self.open[-1][0]].append(text)
        if self.open and self.open[-1][0] == "annotation":
            self.formulas[-1] += text
        if tags & EXEMPT_TAGS or self.classes() & EXEMPT_CLASSES or self.is_choice():
            return
        for match in NUMBER.finditer(text):
            if len(re.sub(r"\D", "", match.group())) > 1 or "." in match.group():
                self.say(f"the number {match.group()} does not say where it comes from: ...{text[max(0, match.start() - 30):match.end() + 10].strip()}")

    def is_choice(self):  # what a reader may predict
        return "predict" in self.classes() and any(tag == "li" for tag, _ in self.open)

    def check_number(self, attributes, text):
        self.numbers += 1
        try:
            value, kind = float(text.replace(",", "")), attributes.get("class")
            if attributes.get("value") != text.replace(",", ""):
                self.say(f"{text} has the value {attributes.get('value')}")
            if kind == "published":
                if not attributes.get("data-by"):
                    self.say(f"{text} is published nowhere")
                return
            if kind == "exact":
                expected = eval(attributes["data-by"].replace("^", "**"), {"__builtins__": {}}, FUNCTIONS)
            elif kind == "measured":
                expected = self.value_at(attributes["data-from"])
            else:
                return self.say(f"{text} is a number of no kind")
            mantissa, _, exponent = text.replace(",", "").partition("e")
            half = 0.5 * 10 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
            digits = len(re.sub(r"\D", "", mantissa).lstrip("0"))
            whole_digits = kind == "measured" and digits >= 6  # printed with so many significant digits
            if abs(value - expected) > half * 1.01 and not (whole_digits and abs(value - expected) <= 5e-6 * abs(expected)):
                self.say(f"{text} is {expected} by {attributes.get('data-by') or attributes.get('data-from')}")
        except (KeyError, IndexError, ValueError, TypeError, SyntaxError, NameError) as error:
            self.say(f"{text}: {attributes} cannot be followed: {error!r}")

    def finish(self):
        self.close()
        for label in self.labels:
            if label not in self.ids:
                self.say(f"a label is for {label}, which is not there")
        for name, images in self.figures:
            if images == 0:
                self.say(f"figure {name} has no image")
        for formula in self.formulas:
            if not formula.strip():
                self.say("a formula has no TeX")
        for kind, texts in self.sources.items():
            for text in texts:
                digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                if f"'sha256-{digest}'" not in self.policy:
                    self.say(f"the policy does not allow the page's own <{kind}>")
        if "default-src 'none'" not in self.policy:
            self.say("there is no policy that keeps the page from loading anything")
        for style in self.sources["style"]:
            if re.search(r"url\(|@import", style):
                self.say("the style loads something")


def main():
    lab = pathlib.Path(sys.argv[1])
    data = {path.name: json.loads(path.read_text()) for path in sorted((lab / "data").glob("*.json"))}
    wrong, size, largest_run, numbers, formulas = [], 0, 0, 0, 0
    for name, record in data.items():
        wrong += [f"data/{name} has no {key}" for key in PROVENANCE if key not in record]
        if not (lab / name.replace(".json", ".html")).exists():
            wrong.append(f"data/{name} has no page")
    pages = sorted(lab.glob("*.html"))
    for path in pages:
        text = path.read_text()
        own, is_run = len(text.encode()), path.name.startswith("run-")
        size, largest_run = size + own * (not is_run), max(largest_run, own * is_run)
        if path.name.replace(".html", ".json") in data and own > (MAX_RUN if is_run else MAX_LESSON):
            wrong.append(f"{path.name} has {own} bytes, of {MAX_RUN if is_run else MAX_LESSON} at most")
        page = Page(path, data)
        page.feed(text)
        page.finish()
        wrong += page.wrong
        numbers, formulas = numbers + page.numbers, formulas + len(page.formulas)
    if not data or len(pages) != len(data) + len(SIDE_PAGES) or any(not (lab / f"{name}.html").exists() for name in SIDE_PAGES):
        wrong.append(f"{lab} has {len(data)} records and {len(pages)} pages: one a record is expected, and {', '.join(SIDE_PAGES)}")
    size += largest_run
    if size > MAX_ALL:
        wrong.append(f"the pages have {size} bytes with one run, of {MAX_ALL} at most")
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{lab}: {len(pages)} pages, {size} bytes with one run, {numbers} numbers and {formulas} formulas with their sources, "
          f"{len(wrong)} findings")
    sys.exit(bool(wrong))


main()
