#!/usr/bin/env python3
"""Combines sources into a few larger ones for clang-tidy, most of whose time goes into the headers of each.

    tidy_groups.py FOLDER < names      writes FOLDER/groups/N.cpp, N.txt with the names of its sources, and
                                       compile_commands.json; FOLDER has the compile_commands.json of the sources

Sources of a folder are joined where no two have a name of their own in common: in unnamed namespaces or by a
using-declaration. What sets a macro stays alone.
"""
import json
import pathlib
import re
import sys

MAX_SOURCES = 16
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.S)


def heads(text):
    """What is outside of braces, up to each brace or semicolon, with whether a brace follows; up to the closing brace of
    the text."""
    depth = start = 0
    for i, char in enumerate(text):
        if char in "{};":
            if depth == 0:
                yield text[start:i].strip(), char == "{"
            depth += (char == "{") - (char == "}")
            start = i + 1
            if depth < 0:
                return


def own_names(text):
    names = set(re.findall(r"^using\s+[\w:]*?(\w+);", text, re.M))
    names |= set(re.findall(r"^int (main)\(", text, re.M))
    for block in re.finditer(r"^namespace \{$", text, re.M):
        for head, has_body in heads(text[block.end():]):
            if re.match(r"(?:using|namespace)\b.*=", head):  # the same alias may be there twice
                continue
            head = re.sub(r"^template\s*<[^()]*>\s*", "", head)
            kind = re.match(r"(?:struct|class|union|enum(?: class)?)\s+(\w+)", head)
            head = head.split("=")[0]
            function = re.search(r"(?<!::)\b(\w+)\s*\(", head)
            if kind and has_body:
                names.add(kind[1])
            elif function:
                names.add(function[1])
            else:
                names |= set(re.findall(r"(\w+)\s*(?:\[\w*\]\s*)?$", head))
    return names


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    entries = json.loads((folder / "compile_commands.json").read_text())
    commands = {str(pathlib.Path(entry["file"]).parent): entry for entry in entries}
    commands |= {entry["file"]: entry for entry in entries}
    groups = []  # [directory, names, sources]
    for source in sys.stdin.read().split():
        path = pathlib.Path(source)
        text = NO_CODE.sub("", path.read_text())
        names, directory = own_names(text), path.parts[0]
        alone = re.search(r"^\s*#\s*define\b|^using namespace", text, re.M)
        for group in groups:
            if not alone and group[0] == directory and len(group[2]) < MAX_SOURCES and not group[1] & names:
                group[1] |= names
                group[2].append(path)
                break
        else:
            groups.append([None if alone else directory, names, [path]])
    target = folder / "groups"
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    joined = []
    for number, (_, _, sources) in enumerate(groups):
        file = target / f"{number}.cpp"
        file.write_text("".join(f'#line 1 "{path.resolve()}"\n{path.read_text()}\n' for path in sources))
        file.with_suffix(".txt").write_text("".join(f"{path}\n" for path in sources))
        first = commands.get(str(sources[0].resolve())) or commands[str(sources[0].resolve().parents[1])]
        joined.append({**first, "file": str(file), "command": first["command"].replace(first["file"], str(file))})
    (target / "compile_commands.json").write_text(json.dumps(joined))


main()
