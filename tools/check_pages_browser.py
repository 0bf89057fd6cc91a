#!/usr/bin/env python3
"""Checks the pages of a lab in headless chromium, driven by its chromedriver: one request a page, the same words without
a script, radio buttons, the keyboard, 320 pixels, light and dark, no movement, printing.

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
    for name in browser.evaluate("[...document.querySelectorAll('fieldset.choice')].map("
                                 "f => f.querySelector('input').name)"):
        for index in (1, 2):
            shown = browser.evaluate(
                f"(() => {{ document.getElementById('{name}-{index}').checked = true; return [...document.querySelectorAll("
                f"'fieldset:has(#{name}-1) .panels > div')].map(d => d.offsetHeight > 0).indexOf(true) + 1; }})()")
            if shown != index:
                yield f"choice {index} of {name} shows panel {shown}"
    browser.tool("Emulation.setScriptExecutionDisabled", value=False)


def keyboard(browser, path):
    browser.open(path)
    expected = browser.evaluate("[...document.querySelectorAll('a[href],button,summary,[tabindex],input[type=range]')]"
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
    for name in browser.evaluate("[...document.querySelectorAll('fieldset.choice:not(.film)')].map("
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
        "[...document.querySelectorAll('figcaption,.command,th,td')].map(e => e.textContent)")
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
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        browser.open(path)
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.evaluate(axe + ";0")
        found = browser.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then(r => "
                                 "r.violations.map(v => v.id + ': ' + v.nodes.slice(0, 2).map(n => n.html.slice(0, 90)).join(' ')))")
        yield from (f"axe, {scheme}: {violation}" for violation in found)
    browser.scheme("light")


def main():
    lab = pathlib.Path(sys.argv[1])
    screenshots = pathlib.Path(sys.argv[3]) if sys.argv[2:3] == ["--screenshots"] else None
    axe = pathlib.Path(os.environ["AXE"]).read_text() if "AXE" in os.environ else None
    pages, wrong, started = sorted(lab.glob("*.html")), 0, time.time()
    browser = Browser()
    try:
        for path in pages:
            checks = [loading(browser, path), without_script(browser, path), keyboard(browser, path),
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
