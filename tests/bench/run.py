"""Measure sizes and times; `--write` puts the table into docs/performance.md.

Times are medians of interleaved runs. What depends on the machine is also given as a ratio against something
measured in the same run.
"""

import gzip
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import bundle  # noqa: E402
import chromium  # noqa: E402
import ipywidgets.embed  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from zerowidget import Setup, ZeroExplorer  # noqa: E402
from zerowidget.rows import steps_of  # noqa: E402
from zerowidget.timeline import step_of  # noqa: E402

PAGE = ROOT / "docs/performance.md"
MODELS = (("paper", 96), ("paper", 1000), ("fsdp2", 96), ("deepspeed", 96))
DRAGS = (("paths", "paper"), ("rects", "paper"), ("paths", "deepspeed"))


def median_ms(times: list[float]) -> float:
    """The median of seconds, in milliseconds."""
    return statistics.median(times) * 1e3


def processes(*codes: list[str], runs: int = 15) -> list[float]:
    """Median wall milliseconds of whole processes, run in turn; with bytecode, as installed packages have it."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: list[list[float]] = [[] for _ in codes]
    for run in range(runs + 1):
        for kept, code in zip(times, codes, strict=True):
            before = time.perf_counter()
            subprocess.run([sys.executable, *code], check=True, stdout=subprocess.DEVNULL, env=env)
            if run:  # the first warms the disk
                kept.append(time.perf_counter() - before)
    return [median_ms(kept) for kept in times]


def sizes() -> list[tuple[str, str, str]]:
    """The bundle, and what a saved notebook keeps of a widget beside it."""
    code = (ROOT / bundle.BUNDLE).read_bytes()
    state = ZeroExplorer(N=7.5e9, n=64).get_state()
    rest = len(json.dumps({name: value for name, value in state.items() if name != "_esm"}))
    packed = len(gzip.compress(code, 9))
    return [
        ("bundle, gzip", f"{packed / 1e3:.1f} kB", "20 kB, at most 40 kB"),
        ("bundle, plain", f"{len(code) / 1e3:.1f} kB", ""),
        ("state of a widget in a saved notebook, beside the bundle", f"{rest} bytes", ""),
    ]


def starts() -> list[tuple[str, str, str]]:
    """Imports and the cold command line."""
    nothing, anywidget, zerowidget, explorer, command = processes(
        ["-c", "pass"],
        ["-c", "import anywidget"],
        ["-c", "import zerowidget"],
        ["-c", "from zerowidget import ZeroExplorer"],
        [str(Path(sys.executable).with_name("zerowidget")), "7.5e9", "64"],
    )
    return [
        ("`python -c pass`", f"{nothing:.0f} ms", ""),
        ("`import anywidget`", f"{anywidget:.0f} ms", ""),
        (
            "`import zerowidget`",
            f"{zerowidget:.0f} ms, {zerowidget / anywidget:.2f}x `import anywidget`",
            "1.15x",
        ),
        ("`from zerowidget import ZeroExplorer`", f"{explorer:.0f} ms, {explorer / anywidget:.2f}x", "1.15x"),
        (
            "cold `zerowidget 7.5e9 64`",
            f"{command:.0f} ms, {command / nothing:.1f}x `python -c pass`",
            "70 ms",
        ),
    ]


def model() -> list[tuple[str, str, str]]:
    """One stage and all four, in both languages, and how they grow with the textbook's depth."""
    rows = []
    command = ["node", "tests/bench/model.mjs", *(f"{system}:{layers}" for system, layers in MODELS)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    javascript = json.loads(done.stdout)
    growth: dict[str, list[float]] = {"JavaScript": [], "Python": []}
    for (system, layers), found in zip(MODELS, javascript, strict=True):
        times: dict[str, list[float]] = {"one": [], "all": []}
        for i in range(30):
            setup = Setup(system=system, N=7e10 + i * 1e7, n=512, layers=layers, hidden=8192)
            before = time.perf_counter()
            step_of(setup, 3)
            between = time.perf_counter()
            steps_of(setup)
            times["one"].append(between - before)
            times["all"].append(time.perf_counter() - between)
        growth["JavaScript"].append(found["all"])
        growth["Python"].append(median_ms(times["all"]))
        budget = "0.5 ms" if (system, layers) == MODELS[0] else ""
        rows.append((f"{system} in JavaScript, {layers} layers", f"{found['one']:.2f} ms stage 3, {found['all']:.2f} ms all stages", budget))  # fmt: skip
        python = f"{median_ms(times['one']):.1f} ms stage 3, {median_ms(times['all']):.1f} ms all stages"
        rows.append((f"{system} in Python, {layers} layers", python, ""))
    depth = MODELS[1][1] / MODELS[0][1]
    grown = ", ".join(f"{name} {times[1] / times[0]:.1f}x" for name, times in growth.items())
    rows.append((f"growth of paper's stages at {depth:.1f}x the layers", grown, "linear"))
    return rows


def pictures() -> list[tuple[str, str, str]]:
    """First paint and the drag step, in Chromium."""
    code = (ROOT / bundle.BUNDLE).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        built = Path(folder) / "page.js"
        subprocess.run(["node", "js/build.mjs", "tests/bench/page.js", str(built)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), args=["--no-sandbox", "--disable-gpu"]
        )
        paints = []
        for _ in range(9):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto((ROOT / "tests/browser/host.html").as_uri())
            paints.append(
                page.evaluate(
                    """async ([code, state]) => {
                      const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
                      const widget = (await import(url)).default;
                      const el = document.body.appendChild(document.createElement("div"));
                      const model = { get: (name) => state[name], set() {}, save_changes() {}, on() {}, off() {} };
                      const before = performance.now();
                      widget.render({ model, el });
                      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
                      return performance.now() - before;
                    }""",
                    [code, {"N": 7e10, "n": 512, "layers": 80}],
                )
                / 1e3
            )
            page.close()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto((ROOT / "tests/browser/host.html").as_uri())
        page.add_script_tag(content=built.read_text(encoding="utf-8"), type="module")
        page.wait_for_function("Boolean(window.drag)")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")

        def busy() -> float:
            metrics = session.send("Performance.getMetrics")["metrics"]
            return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

        script: dict[tuple[str, str], list[float]] = {drag: [] for drag in DRAGS}
        cpu: dict[tuple[str, str], list[float]] = {drag: [] for drag in DRAGS}
        steps = 60
        for _ in range(8):
            for kind, system in DRAGS:
                before = busy()
                fields = {"system": system, "n": 512, "layers": 80, "hidden": 8192}
                times = page.evaluate("(asked) => drag(...asked)", [kind, steps, fields])
                cpu[kind, system].append((busy() - before) / steps)
                script[kind, system].extend(value / 1e3 for value in times[10:])
        browser.close()
    ours, rects, deepspeed = (median_ms(script[drag]) for drag in DRAGS)
    our_cpu, rect_cpu, _ = (median_ms(cpu[drag][1:]) for drag in DRAGS)
    return [
        ("first paint after the module has loaded, 80 layers", f"{median_ms(paints):.0f} ms", "100 ms"),
        ("drag step, script and layout, 80 layers, all stages", f"{ours:.1f} ms, {ours / rects:.2f}x a rectangle per span ({rects:.1f} ms)", "2.5 ms"),
        ("the same, CPU of the page", f"{our_cpu:.1f} ms, {our_cpu / rect_cpu:.2f}x a rectangle per span ({rect_cpu:.1f} ms)", "6.5 ms"),
        ("drag step of DeepSpeed, script and layout, 80 layers", f"{deepspeed:.1f} ms, {deepspeed / ours:.1f}x the textbook", ""),
    ]  # fmt: skip


def took(run: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    before = time.perf_counter()
    run()
    return (time.perf_counter() - before) * 1e3


def files() -> list[tuple[str, str, str]]:
    """The live page beside what ipywidgets and Altair write, and the charts as files."""
    ex = ZeroExplorer(N=7.5e9, n=64)
    page = ex.to_html()
    again = statistics.median(took(ex.to_html) for _ in range(9))
    plain, bundled = ex._repr_mimebundle_()[0], json.dumps(ex._repr_mimebundle_()[0])
    rows = [
        ("self-contained live page", f"{len(page.encode()) / 1e3:.1f} kB, {again:.0f} ms", "60 kB"),
        ("output of a cell: table, live frame, text", f"{len(bundled) / 1e3:.1f} kB", ""),
        ("its text alone", f"{len(plain['text/plain']) / 1e3:.1f} kB", ""),
    ]
    with tempfile.TemporaryDirectory() as folder:
        embed = io.StringIO()
        ipywidgets.embed.embed_minimal_html(embed, views=[ex], drop_defaults=False)
        rows.append(
            ("ipywidgets' own embed of it", f"{len(embed.getvalue()) / 1e3:.1f} kB, and two CDNs", "")
        )
        inline = Path(folder) / "altair.html"
        first = took(lambda: ex.timeline_chart().save(inline, inline=True))
        rows.append(
            (
                "Altair's inline HTML of the timeline",
                f"{inline.stat().st_size / 1e3:.0f} kB, {first:.0f} ms",
                "",
            )
        )
        for chart in ("memory", "timeline"):
            times = []
            for suffix in ("svg", "png", "pdf"):
                path = Path(folder) / f"{chart}.{suffix}"
                save = partial(ex.save, path, chart=chart)
                save()
                times.append(f"{suffix} {took(save):.0f} ms {path.stat().st_size / 1e3:.0f} kB")
            rows.append((f"`save` of the {chart} chart, once warm", ", ".join(times), ""))
    return rows


def main() -> None:
    """Measure all and print the table."""
    bundle.build_if_stale(ROOT)
    rows = [*sizes(), *starts(), *model(), *pictures(), *files()]
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    browser = subprocess.run(
        [str(chromium.find()), "--version"], check=True, capture_output=True, text=True
    ).stdout
    versions = f"Python {platform.python_version()}, Node {node}, {' '.join(browser.split()[:2])}, anywidget {version('anywidget')}"  # fmt: skip
    lines = ["| what | measured | budget |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    table = "\n".join(lines)
    print(table)
    if "--write" in sys.argv:
        text = PAGE.read_text(encoding="utf-8")
        head, _, _ = text.partition("<!-- measured -->")
        stamp = f"Measured on {date.today().isoformat()} on 2 cores with {versions}."
        PAGE.write_text(f"{head}<!-- measured -->\n\n{stamp}\n\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
