#!/usr/bin/env python3
"""Checks the live page in headless chromium: it is quiet until a button is pressed, trains as `linea train` does, never
holds the page up, completes what is painted, and its bench gives what `linea attend --show` gives.

    check_live.py LIVE.html LINEA RUN [--screenshots DIR]

RUN is the recorded run of tools/build-web.sh.
"""
import json
import pathlib
import re
import subprocess
import sys
import time

from check_pages_browser import Browser

LESSONS = pathlib.Path(__file__).resolve().parents[1] / "lessons"
TASKS = """window.longest = 0; new PerformanceObserver(list => { for (const entry of list.getEntries())
  window.longest = Math.max(window.longest, entry.duration); }).observe({entryTypes: ['longtask']});
window.losses = []; new MutationObserver(() => { const found = /step (\\d+): loss ([\\d.]+)/.exec(
  document.getElementById('status').textContent);
  if (found) window.losses[Number(found[1])] = Number(document.getElementById('status').dataset.loss); })
  .observe(document.getElementById('status'), {childList: true, characterData: true, subtree: true});"""

# The numbers of bright pixels of images in rows [from, to).
BRIGHT = """(selector, from, to) => [...document.querySelectorAll(selector)].map(image => {
  const {data} = image.getContext('2d').getImageData(0, from, image.width, to - from); let count = 0;
  for (let i = 0; i < data.length; i += 4) count += data[i] > 0; return count; })"""


def wait(browser, expression, seconds):
    end = time.time() + seconds
    while time.time() < end:
        if browser.evaluate(expression):
            return True
        time.sleep(0.2)
    return False


def main():
    page, linea, run = map(pathlib.Path, sys.argv[1:4])
    screenshots = pathlib.Path(sys.argv[5]) if len(sys.argv) > 5 else None
    findings = []
    expect = lambda right, text: right or findings.append(text)
    if page.stat().st_size > 1_600_000:
        findings.append(f"{page.stat().st_size} bytes")
    browser = Browser()
    click = lambda name: browser.evaluate(f"document.getElementById('{name}').click()")
    text = lambda name: browser.evaluate(f"document.getElementById('{name}').textContent")

    browser.open(page)
    browser.evaluate(TASKS)
    time.sleep(1)
    expect(browser.evaluate("longest") == 0 and text("status").startswith("150 steps"), "it works before a button is pressed")

    began = time.time()
    click("run")
    expect(wait(browser, "losses.length > 100", 60), f"no 100 steps in a minute: {text('status')}")
    seconds = time.time() - began
    expect(seconds <= 20, f"100 steps took {seconds:.1f} s")
    expect(wait(browser, "document.getElementById('run').textContent === 'Train'", 60), "training does not end")
    native = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "loss" in record:
            native[record["step"]] = record["loss"]
    losses = browser.evaluate("losses")
    for step in range(10, 61, 10):  # a line of metrics.jsonl has the mean since the line before
        if len(losses) > step:
            mean = sum(losses[step - 9:step + 1]) / 10
            expect(abs(mean - native[step]) < 1e-5, f"steps to {step}: loss {mean}, native {native[step]}")
    print(f"100 steps in {seconds:.1f} s; longest task {browser.evaluate('longest'):.0f} ms; {text('status')}")
    expect(browser.evaluate("longest") <= 200, f"a task of {browser.evaluate('longest'):.0f} ms")
    bright = lambda selector, *rows: browser.evaluate(f"({BRIGHT})({json.dumps(selector)}, {rows[0]}, {rows[1]})")
    samples = bright("#samples canvas", 0, 12)
    expect(len(samples) == 8 and min(samples) > 5, f"bright pixels of the samples: {samples}")

    click("arch")
    click("complete")
    wait(browser, f"({BRIGHT})('#completed canvas', 6, 12).filter(count => count > 0).length === 10", 10)
    painted, upper, lower = bright("#paint", 0, 6), bright("#completed canvas", 0, 6), bright("#completed canvas", 6, 12)
    expect(upper == painted * 10 and painted[0] > 0, f"bright pixels of the upper halves: {upper}, painted {painted}")
    expect(len(lower) == 10 and min(lower) > 0, f"bright pixels of the lower halves: {lower}")

    for toy, rule, form in [("toy.json", "sum", "recurrent"), ("toy-dy.json", "sum", "chunked"), ("write.json", "delta", "recurrent")]:
        rows = json.loads((LESSONS / toy).read_text())
        command = [linea, "attend", "--in", LESSONS / toy, "--attention", "linear", "--rule", rule, "--causal", "--form", form, "--show", "steps"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        expected = output[:output.index("\ny")+1] if "\ny" in output else output
        browser.evaluate(f"""(() => {{ const set = (id, value) => {{ const e = document.getElementById(id); e.value = value;
          e.dispatchEvent(new Event('change')); }}; set('rule', {json.dumps(rule)}); set('form', {json.dumps(form)}); set('json', {json.dumps(json.dumps(rows))}); }})()""")
        click("compute")
        wait(browser, f"document.getElementById('steps').textContent === {json.dumps(expected)}", 5)
        expect(text("steps") == expected, f"{toy}: the bench shows\n{text('steps')}\nand linea attend\n{expected}")
    browser.evaluate("document.getElementById('nudged').value = 'v,0,0'; document.getElementById('nudge').textContent = ''")
    click("compute")
    expect(wait(browser, "document.getElementById('nudge').textContent !== ''", 10), f"the bench fails: {text('problem')}")
    numbers = [float(x) for x in re.findall(r"by (-?[\d.]+) a unit; the gradient there is (-?[\d.]+)", text("nudge"))[0]]
    expect(numbers[1] != 0 and abs(numbers[0] - numbers[1]) < 2e-3, text("nudge"))
    expect(not [url for url in browser.requests() if not url.startswith("file:")], "it asks the network")
    for width in (1200, 320):
        browser.width(width)
        expect(browser.evaluate("document.documentElement.scrollWidth") <= width, f"wider than {width} pixels")
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            if screenshots:
                browser.screenshot(screenshots / f"live-{width}-{scheme}.png")
    browser.tool("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    expect(browser.evaluate("document.getElementById('live').hidden && document.getElementById('without').textContent !== '' && "
                            "[...document.images].filter(image => image.naturalWidth > 0).length === 4"),
           "without a script there is no recorded run")
    browser.tool("Emulation.setScriptExecutionDisabled", value=False)
    browser.tool("Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.WebAssembly")
    browser.open(page)
    expect(browser.evaluate("document.getElementById('live').hidden") and "has no WebAssembly" in text("without"),
           f"without WebAssembly it says '{text('without')}'")
    browser.close()
    print("\n".join(findings) or "0 findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
