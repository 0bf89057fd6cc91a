#!/usr/bin/env python3
"""Checks the size of the code: lines of code a folder, lines a file, lines a function.

Code lines are lines with neither only blanks nor only comments, of *.h, *.cpp, *.cu. Kernels (tensor/cpu, cuda) may
have functions of any length.

Reads the names of the files from its input: tools/check.sh runs it. --print: also the counts.
"""
import fnmatch
import re
import sys

# A budget is raised only by a commit that adds a named thing, which says so.
BUDGETS = {
    "base": 835,
    "parallel": 795,
    "tensor": 7464,
    "autograd": 3732,
    "nn": 3766,
    "cuda": 10610,
    "data": 5759,
    "train": 6747,
    "bench": 3979,
    "lab": 4680,
    "cli": 1254,
}
# Adding one of these is what the project is for: no budget.
UNCOUNTED = ["autograd/rules/*", "nn/attention/*", "data/tasks/*"] + [
    f"cli/{command}*.cpp" for command in "approx attend bench compare data eval help info judge lab manual plot presets runs sample train verify".split()]
MAX_FILE, MAX_FUNCTION = 400, 60
MAX_FILES = {"tools/linea_model.py": 682}  # one file that a user can copy
KERNELS = ("tensor/cpu/", "cuda/")

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.S)


def without_comments(text, strings):
    """The text without comments, and with or without what strings hold; line breaks stay."""
    def replace(match):
        token = match.group()
        if strings and token[0] != "/":
            return token
        return "\n" * token.count("\n") if token[0] == "/" else '""' + "\n" * token.count("\n")
    return TOKEN.sub(replace, text)


def code_lines(text):
    return sum(1 for line in without_comments(text, strings=True).split("\n") if line.strip())


def functions(text):
    """(first line, lines, name) of every function that is no part of another."""
    text = without_comments(text, strings=False)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n"), text, flags=re.M)
    stack, start, line, head_line = [], 0, 1, 0
    for i, char in enumerate(text):
        if char == "\n":
            line += 1
        elif char in ";{}":
            head = text[start:i].strip()
            if char == "{":
                plain = re.sub(r"^template\s*<.*?>\s*(?=\w)|alignas\([^)]*\)|__\w+__\([^)]*\)", "", head, flags=re.S)
                container = re.match(r"(inline )?(namespace|class|struct|union|enum|extern)\b", plain) and ")" not in plain
                outer = all(kind == "container" for kind, _, _ in stack)
                kind = "container" if container else "table" if plain.endswith("=") else "function"
                first = line - text[start:i].lstrip().count("\n")
                stack.append((kind if outer else "inner", first, head))
            elif char == "}" and stack:
                kind, first, head = stack.pop()
                if kind == "function":
                    yield first, line - first + 1, head
            start = i + 1


def main():
    wrong, counted, all_lines = [], {}, {}
    for path in sys.stdin.read().splitlines():
        if not re.search(r"\.(h|cpp|cu|py|sh|cmake)$|CMakeLists.txt$", path):
            continue
        text = open(path, encoding="utf-8").read()
        limit = MAX_FILES.get(path, MAX_FILE)
        if text.count("\n") > limit:
            wrong.append(f"{path}: {text.count(chr(10))} lines, of {limit} at most: split it")
        if not re.search(r"\.(h|cpp|cu)$", path):
            continue
        folder = path.split("/")[0]
        lines = code_lines(text)
        all_lines[folder] = all_lines.get(folder, 0) + lines
        if not any(fnmatch.fnmatch(path, pattern) for pattern in UNCOUNTED):
            counted[folder] = counted.get(folder, 0) + lines
        if path.startswith(KERNELS):
            continue
        for first, length, head in functions(text):
            if length > MAX_FUNCTION:
                name = (re.findall(r"([\w~:]+)\s*\(", head) or ["?"])[0]
                wrong.append(f"{path}:{first}: {name} has {length} lines, of {MAX_FUNCTION} at most: split it")
    for folder, budget in BUDGETS.items():
        if counted.get(folder, 0) > budget:
            wrong.append(f"{folder}/: {counted[folder]} lines of code, of {budget} at most (tools/size.py): make it "
                         "smaller, or raise the budget in the commit that adds a named thing")
    if "--print" in sys.argv:
        print("folder     in the budget   all")
        for folder, lines in all_lines.items():
            print(f"{folder:10} {counted.get(folder, 0):8} {BUDGETS.get(folder, ''):>6} {lines:6}")
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(bool(wrong))


main()
