"""Fixtures that show the widget: `open_widget` in a plain page, `lab` and `run_notebook` in JupyterLab."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bundle
import psutil
import pytest

ROOT = Path(__file__).parents[2]
HOST = Path(__file__).with_name("host.html")


@pytest.fixture(scope="session")
def bundle_code() -> str:
    """Return the bundle's text, built anew if its sources are newer: never test yesterday's code."""
    bundle.build_if_stale(ROOT)
    return (ROOT / bundle.BUNDLE).read_text(encoding="utf-8")


@pytest.fixture
def open_widget(bundle_code: str) -> Callable[..., Any]:
    """Show the widget in a page without a kernel: `view = open_widget(page, N=7.5e9, n=64, ...)`.

    The page has `model` (with `saves`, `listeners()` and `receive(update)`), `views`, `render()` for one
    more view and `cleanup(index)`; see host.html.
    """

    def open_widget(page: Any, **state: Any) -> Any:
        page.goto(HOST.as_uri())
        page.evaluate("([code, state]) => start(code, state)", [bundle_code, state])
        return page.locator("#views > div").first

    return open_widget


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab that serves the folder `root`."""

    url: str
    token: str
    root: Path

    def address(self, name: str) -> str:
        """Return the address of one document of `root`, in a fresh workspace."""
        return f"{self.url}/doc/tree/{name}?token={self.token}&reset"


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab for the whole run, which knows nothing of the user's own settings."""
    home = tmp_path_factory.mktemp("lab")
    root = home / "notebooks"
    root.mkdir()
    config = home / "config"
    (config / "labconfig").mkdir(parents=True)
    # Without an answer to its question about news, Lab covers the page with it.
    (config / "labconfig" / "default_setting_overrides.json").write_text(
        '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}'
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lab = Lab(f"http://127.0.0.1:{port}", secrets.token_hex(8), root)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}"]
    command += [f"--IdentityProvider.token={lab.token}", "--LabApp.expose_app_in_browser=True"]
    command += ["--LabApp.extension_manager=readonly"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    environment |= {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    log = home / "log.txt"
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_for(lab, server, log)
        yield lab
    finally:
        _stop(server)


@pytest.fixture
def run_notebook(lab: Lab) -> Callable[..., None]:
    """Open a notebook in Lab and run all of it: `run_notebook(page, path)`; a cell's error fails the test."""

    def run_notebook(page: Any, path: Path, seconds: int = 120) -> None:
        target = lab.root / path.name
        if target != path:
            shutil.copyfile(path, target)
        page.goto(lab.address(path.name))
        page.wait_for_function(
            "window.jupyterapp?.shell.currentWidget?.sessionContext !== undefined", timeout=seconds * 1000
        )
        # By command, once the kernel is there: clicks and key presses get lost while Lab is starting.
        errors = page.evaluate(
            """async (seconds) => {
              let step = "starting the kernel";
              const run = async () => {
                const notebook = jupyterapp.shell.currentWidget;
                await notebook.context.ready;
                await notebook.sessionContext.ready;
                // Once in a while the first request to a new kernel is lost: ask until it answers.
                const { kernel } = notebook.sessionContext.session;
                for (let answered = false; !answered; ) {
                  const answer = kernel.requestExecute({ code: "", silent: true, store_history: false }).done;
                  const patience = new Promise((end) => setTimeout(end, 5000));
                  answered = await Promise.race([answer.then(() => true, () => false), patience]);
                }
                step = "running the cells";
                await jupyterapp.commands.execute("notebook:run-all-cells");
                const cells = notebook.content.model.toJSON().cells;
                return cells.flatMap((cell) => cell.outputs ?? [])
                  .filter((output) => output.output_type === "error")
                  .map((output) => `${output.ename}: ${output.evalue}`);
              };
              const late = new Promise((_, fail) =>
                setTimeout(() => fail(new Error(`${step} took over ${seconds} s`)), seconds * 1000));
              return Promise.race([run(), late]);
            }""",
            seconds,
        )
        assert errors == []

    return run_notebook


def _wait_for(lab: Lab, server: subprocess.Popen[bytes], log: Path, seconds: int = 120) -> None:
    request = urllib.request.Request(f"{lab.url}/api/status", headers={"Authorization": f"token {lab.token}"})
    # Straight to this machine, whatever proxy the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with opener.open(request, timeout=5):
                return
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}", pytrace=False)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and the kernels it started, and nothing else."""
    kernels = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
    server.terminate()
    try:
        server.wait(timeout=20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    _, left = psutil.wait_procs(kernels, timeout=10)
    for process in left:
        process.kill()
