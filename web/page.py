#!/usr/bin/env python3
"""Writes the live page: one file with its script, program, style and recorded run inside.

    page.py GLUE.js PROGRAM.wasm RUN STYLE.html OUT.html

RUN is the run of the recording, STYLE.html a page whose style it takes.
"""
import base64
import gzip
import hashlib
import html
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
STEPS = [10, 50, 100, 150]
STYLE = """
button,select,input,textarea{font:inherit;color:inherit;background:var(--soft);border:1px solid var(--line);border-radius:.3rem;padding:.25rem .6rem}
button{cursor:pointer}
button:disabled{opacity:.5;cursor:default}
.buttons{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center}
fieldset{border:1px solid var(--line);border-radius:.3rem;display:inline-flex;flex-wrap:wrap;gap:.3rem 1rem}
.pixels{image-rendering:pixelated;border:1px solid var(--line);display:block}
.w3{width:4.5rem;height:4.5rem}
.w12{width:12rem;max-width:100%}
#paint{height:6rem;background:#000;touch-action:none;cursor:crosshair}
#S{height:12rem}
#state{height:auto;margin:.5rem 0}
.row{display:flex;flex-wrap:wrap;gap:.75rem;margin:1rem 0}
.row figcaption{text-align:center}
.film{width:100%;max-width:40rem;image-rendering:pixelated}
.curve{width:100%;max-width:48rem;border-left:1px solid var(--line);border-bottom:1px solid var(--line)}
.curve polyline{fill:none;stroke:var(--accent);stroke-width:2;vector-effect:non-scaling-stroke}
.scroll{overflow-x:auto}
#bench td,#bench th{padding:.15rem .3rem;text-align:left}
#bench input{width:4.5rem}
.bad{color:var(--bad)}
input.bad{border-color:var(--bad)}
textarea{width:100%}
pre:empty{display:none}
"""


def hash_of(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def film(run):
    losses = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "loss" in record:
            losses[record["step"]] = record["loss"]
    figures = []
    for step in STEPS:
        image = base64.b64encode((run / "samples" / f"step-{step:08d}.png").read_bytes()).decode()
        figures.append(f'<figure><img class="film" alt="samples after {step} steps" src="data:image/png;base64,{image}">'
                       f"<figcaption>{step} steps, loss {losses[step]:.3f}</figcaption></figure>")
    return "\n".join(figures)


def main():
    glue, program, run, styled, out = map(pathlib.Path, sys.argv[1:])
    style = re.search(r"<style>\n(.*?)</style>", styled.read_text(), re.S)[1] + STYLE
    folder = re.compile('/home' + '/web_user')  # of emscripten's file system in memory
    script = folder.sub("/user", glue.read_text()) + "\n" + (HERE / "live.js").read_text()
    assert "</script" not in script
    wasm = program.read_bytes()
    compiler = subprocess.run(["em++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE).stdout.strip()
    build = (f"Commit {commit or 'unknown'}, {compiler}; the program has {len(wasm)} bytes, SHA-256 "
             f"{hashlib.sha256(wasm).hexdigest()}. Made by tools/build-web.sh.")
    command = re.search(r"^linea train .*", (run / "commands.txt").read_text(), re.M)[0]
    body = (HERE / "live.html").read_text()
    for name, text in [("COMMAND", f"<code>{html.escape(command)}</code>"), ("FILM", film(run)), ("BUILD", html.escape(build))]:
        body = body.replace(name, text, 1)
    policy = (f"default-src 'none'; img-src data:; style-src '{hash_of(style)}'; "
              f"script-src '{hash_of(script)}' 'wasm-unsafe-eval'; base-uri 'none'; form-action 'none'")
    packed = base64.b64encode(gzip.compress(wasm, 9, mtime=0)).decode()
    out.write_text(f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>Live: linear attention in a browser tab</title>
<style>{style}</style>
</head>
<body>
{body}<script type="application/octet-stream" id="program">{packed}</script>
<script>{script}</script>
</body>
</html>
""")
    print(f"{out}: {out.stat().st_size} bytes")


main()
