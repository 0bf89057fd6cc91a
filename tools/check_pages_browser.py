#!/usr/bin/env python3
"""Checks the pages of a lab in headless chromium, driven by its chromedriver: one request a page, the same words without
a script, radio buttons, the keyboard, what the script adds, 320 pixels, light and dark, no movement, printing.

tools/check-pages.sh runs it:  check_pages_browser.py LAB [--screenshots DIR]
AXE=axe.min.js: also the rules of axe-core (WCAG 2.2 A and AA).
"""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

MAX_SIDES = 6  # of a printed lesson, A4
A4 = {"paperWidth": 8.27, "paperHeight": 11.69}
VISIBLE_WORDS = """(() => { const words = document.querySelector('main').cloneNode(true);
  words.querySelectorAll('button,output,input,label,svg').forEach(e => e.remove());
  return words.textContent.replace(/\\s+/g, ' ').trim(); })()"""


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            port = re.search(r"successfully on port (\d+)", line)
            if port:
                break
        self.url = f"http://127.0.0.1:{port.group(1)}/session"
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}"]}
        answer = self.post("", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"performance": "ALL"}}}})
        self.url += "/" + answer["sessionId"]

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def tool(self, command, **parameters):
        return self.post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def evaluate(self, expression):
        answer = self.tool("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "error in the page"))
        return answer["result"].get("value")

    def open(self, path):
        self.post("/url", {"url": path.resolve().as_uri()})

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            self.tool("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def requests(self):
        found = []
        for entry in self.post("/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith(("data:", "chrome:"))]  # of the page alone

    def width(self, pixels):
        self.tool("Emulation.setDeviceMetricsOverride", width=pixels, height=900, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.tool("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path):
        size = self.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        image = self.tool("Page.captureScreenshot", captureBeyondViewport=True,
                          clip={"x": 0, "y": 0, "width": size[0], "height": min(size[1], 16000), "scale": 1})
        path.write_bytes(base64.b64decode(image["data"]))

    def close(self):
        try:
            request = urllib.request.Request(self.url, method="DELETE")
            urllib.request.urlopen(request, timeout=20)
        finally:
            self.driver.terminate()
            self.driver.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


def loading(browser, path):
    browser.requests()
    browser.open(path)
    urls = browser.requests()
    if len(urls) != 1 or not urls[0].startswith("file:"):
        yield f"it makes the requests {urls}"
    if browser.evaluate("document.getAnimations().length"):
        yield "something moves by itself"
    if browser.evaluate("document.querySelectorAll('math annotation').length") != browser.evaluate(
            "document.querySelectorAll('math').length"):
        yield "a formula has no TeX"


def without_script(browser, path):
    browser.open(path)
    words = browser.evaluate(VISIBLE_WORDS)
    browser.tool("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(path)
    other = browser.evaluate(VISIBLE_WORDS)
    if words != other:
        yield "it has other words without a script"
    for name in browser.evaluate("[...new Set([...document.querySelectorAll('.choice input[type=radio]')].map(i => i.name))]"):
        for index in (1, 2):
            shown = browser.evaluate(
                f"(() => {{ const button = document.getElementById('{name}-{index}'); button.checked = true;"
                "return [...button.closest('.choice').querySelectorAll('.panels > div')].filter(d => d.offsetHeight > 0)"
                ".map(d => d.classList.contains(button.closest('fieldset').className + '-' + button.id.split('-')[1])); })()")
            if shown != [True]:
                yield f"choice {index} of {name} shows the panels {shown}"
    browser.tool("Emulation.setScriptExecutionDisabled", value=False)


def keyboard(browser, path):
    browser.open(path)
    expected = browser.evaluate("[...document.querySelectorAll('a[href],button,summary,[tabindex],input:not([type=radio])')]"
                                ".filter(e => e.checkVisibility()).length + new Set([...document.querySelectorAll("
                                "'input[type=radio]')].filter(e => e.checkVisibility()).map(e => e.name)).size")
    seen = []
    for _ in range(expected + 3):
        browser.key("Tab", 9)
        seen.append(browser.evaluate(
            "(() => { const e = document.activeElement; if (e === document.body) return ''; const s = getComputedStyle(e);"
            "return [e.tagName, e.id || e.textContent.slice(0, 30), s.outlineStyle !== 'none'].join('|'); })()"))
    stops = [stop for stop in seen if stop]
    if not stops or "Skip to the lesson" not in stops[0]:
        yield f"the first Tab is {stops[:1]}"
    if len(stops) < expected:
        yield f"Tab reaches {len(stops)} of {expected} controls"
    yield from (f"{stop} shows no focus" for stop in stops if stop.endswith("|false"))
    for name in browser.evaluate("[...document.querySelectorAll('.choice:not(.film) > fieldset')].map("
                                 "f => f.querySelector('input').name)"):
        browser.evaluate(f"document.getElementById('{name}-1').click(), document.getElementById('{name}-1').focus()")
        browser.key("ArrowRight", 39)
        if browser.evaluate(f"document.querySelector('[name={name}]:checked').id") != f"{name}-2":
            yield f"arrows do not move the choice of {name}"
    for index in range(browser.evaluate("document.querySelectorAll('.film input[type=range]').length")):
        film = f"document.querySelectorAll('.film input[type=range]')[{index}]"
        before = browser.evaluate(f"{film}.focus(), {film}.value = {film}.min, {film}.value")
        browser.key("ArrowRight", 39)
        if browser.evaluate(f"{film}.value") == before:
            yield f"arrows do not move film {index + 1}"


def controls(browser, path):
    """What the script adds: answers, films that play, choices in the address, the value of a cell."""
    browser.open(path)
    for answered in browser.evaluate("""[...document.querySelectorAll('.question[data-answer]')].map(question => {
            const [input, button, output] = ['input', 'button', 'output'].map(tag => question.querySelector('.answer ' + tag));
            return ['-1e9', question.dataset.answer].map(text => { input.value = text; button.click();
              return output.textContent.trim() + question.querySelectorAll('details[open]').length; }).join(); })"""):
        if answered not in ("not yet1,right1", "还不对1,对1"):
            yield f"an exercise answers {answered}"
    if browser.evaluate("document.querySelector('.film') !== null"):
        range_value = "document.querySelector('.film input[type=range]').value"
        browser.evaluate("document.getElementById(document.querySelector('.film input').name + '-1').click()")
        press = "document.querySelector('.film button').click()"
        browser.evaluate(press)
        time.sleep(1)
        browser.evaluate(press)
        played = browser.evaluate(range_value)
        time.sleep(0.6)
        if played == "1" or browser.evaluate(range_value) != played:
            yield f"a film played to {played} and stopped at {browser.evaluate(range_value)}"
    radio = browser.evaluate("(i => i && i.id)([...document.querySelectorAll('.choice input[type=radio]:not(:checked)')].pop())")
    if radio:
        browser.post("/url", {"url": path.resolve().as_uri() + "#" + radio})
        browser.post("/refresh", {})
        if not browser.evaluate(f"document.getElementById('{radio}').checked"):
            yield f"the address #{radio} does not choose"
        browser.post("/url", {"url": "about:blank"})
    browser.open(path)
    for image in browser.evaluate("[...document.querySelectorAll('.figure img[data-from]')].filter(i => i.offsetWidth).map(i => "
                                  "[i.dataset.from, i.dataset.least, i.dataset.largest, i.alt.split(',')[0], i.closest('.figure').id])"):
        name, pointer = image[0].split("#")
        file = path.parent / "data" / name
        if not file.exists():
            continue
        values = json.loads(file.read_text())
        for part in pointer.split("/")[1:]:
            values = values[int(part) if isinstance(values, list) else part]
        row, column = len(values) // 2, len(values[0]) // 3
        text = browser.evaluate(f"""(() => {{ const [row, column] = document.querySelectorAll('#{image[4]} .cell input');
            row.value = {row + 1}; column.value = {column + 1}; row.dispatchEvent(new Event('input'));
            return document.querySelector('#{image[4]} .cell output').textContent; }})()""")
        least, largest = float(image[1]), float(image[2])
        value, half = values[row][column], (largest - least) / 128
        shown = re.findall(re.escape(image[3]) + r" (about|at most|at least) (-?[\d.e+-]+)", text)
        if not any({"about": abs(value - float(one)) <= half + 0.06 * abs(float(one)), "at most": value <= least + half,
                    "at least": value >= largest - half}[words] for words, one in shown):
            yield f"cell {row}, {column} of {image[0]} is {value}, and is read out as {text}"


def sizes(browser, path, screenshots):
    browser.open(path)
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        browser.width(1000)
        if screenshots:
            browser.screenshot(screenshots / f"{path.stem}-{scheme}.png")
    browser.scheme("light")
    browser.width(320)
    wide = browser.evaluate("document.documentElement.scrollWidth")
    if wide > 320:
        yield f"it is {wide} pixels wide at 320: " + str(browser.evaluate(
            "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 321 && "
            "!e.closest('.scroll,.wide,.formula,math,pre')).slice(0, 3).map(e => e.outerHTML.slice(0, 80))"))
    if screenshots:
        browser.screenshot(screenshots / f"{path.stem}-320.png")
    browser.width(1000)
    browser.evaluate("document.documentElement.style.fontSize = '200%'")
    wide = browser.evaluate("document.documentElement.scrollWidth")
    if wide > 1000:
        yield f"with letters of twice the size it is {wide} pixels wide at 1000"
    browser.tool("Emulation.clearDeviceMetricsOverride")


def printing(browser, path):
    if not shutil.which("pdftotext"):
        return
    browser.open(path)
    needed = browser.evaluate(
        "document.querySelectorAll('annotation').forEach(tex => tex.remove()) || "
        "[...document.querySelectorAll('figcaption,.command,th,td')].map(e => e.textContent).concat("
        "[...document.querySelectorAll('.still .which')].map(e => e.textContent))")
    with tempfile.TemporaryDirectory() as folder:
        pdf = pathlib.Path(folder) / "page.pdf"
        pdf.write_bytes(base64.b64decode(browser.tool("Page.printToPDF", **A4)["data"]))
        text = subprocess.run(["pdftotext", str(pdf), "-"], capture_output=True, text=True, check=True).stdout
        sides = text.count("\f")
    squeezed = re.sub(r"\W", "", text)
    for part in needed:
        for word in re.findall(r"\w{4,}", part):
            if re.sub(r"\W", "", word) not in squeezed:
                yield f"'{word}' is not on paper"
                break
    if path.stem != "index" and sides > MAX_SIDES:
        yield f"it takes {sides} sides of paper, of {MAX_SIDES} at most"


def accessibility(browser, path, axe):
    for look in ("light", "dark", "without what the script adds"):
        browser.scheme("dark" if look == "dark" else "light")
        browser.tool("Emulation.setScriptExecutionDisabled", value=look.startswith("without"))
        browser.open(path)
        browser.tool("Emulation.setScriptExecutionDisabled", value=False)
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.evaluate(axe + ";0")
        found = browser.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then(r => "
                                 "r.violations.map(v => v.id + ': ' + v.nodes.slice(0, 2).map(n => n.html.slice(0, 90)).join(' ')))")
        yield from (f"axe, {look}: {violation}" for violation in found)


def main():
    lab = pathlib.Path(sys.argv[1])
    screenshots = pathlib.Path(sys.argv[3]) if sys.argv[2:3] == ["--screenshots"] else None
    axe = pathlib.Path(os.environ["AXE"]).read_text() if "AXE" in os.environ else None
    pages, wrong, started = sorted(lab.glob("*.html")), 0, time.time()
    browser = Browser()
    try:
        for path in pages:
            checks = [loading(browser, path), without_script(browser, path), keyboard(browser, path), controls(browser, path),
                      sizes(browser, path, screenshots), printing(browser, path)]
            if axe:
                checks.append(accessibility(browser, path, axe))
            for check in checks:
                for message in check:
                    wrong += 1
                    print(f"{path.name}: {message}")
    finally:
        browser.close()
    print(f"{lab}: {len(pages)} pages in chromium{'' if axe else ', without axe (AXE=axe.min.js)'}, "
          f"{time.time() - started:.0f} s, {wrong} findings")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
