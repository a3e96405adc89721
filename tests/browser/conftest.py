"""Fixtures that show the widget: `open_widget` in a plain page, `lab` and `run_notebook` in JupyterLab, `start` in others."""

import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import bundle
import psutil
import pytest

ROOT = Path(__file__).parents[2]
HOST = Path(__file__).with_name("host.html")


@pytest.fixture(scope="session")
def bundle_code() -> str:
    """Return the bundle's text."""
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


JUPYTER = ["--no-browser", "--allow-root", "--port={port}", "--ServerApp.ip=127.0.0.1"]
JUPYTER += ["--ServerApp.port_retries=0", "--ServerApp.root_dir={root}", "--IdentityProvider.token={token}"]


@dataclass(frozen=True)
class Server:
    """A running server that serves the folder `root`; `environment` is what it was started with."""

    url: str
    token: str
    root: Path
    environment: dict[str, str]

    def address(self, place: str) -> str:
        """Return the address of one of its pages."""
        return f"{self.url}/{place}?token={self.token}"


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Start servers for the whole run: `start("voila", ["--port={port}", "{root}/a.ipynb"], copies=[path])`.

    They run as `python -m NAME`, know nothing of the user's own settings, and have copies of files in `{root}`;
    `ready` is a page that is cheap to ask for.
    """
    with contextlib.ExitStack() as running:

        def start(name: str, words: Sequence[str], ready: str = "", copies: Sequence[Path] = ()) -> Server:
            return running.enter_context(_serve(tmp_path_factory.mktemp(name), name, words, ready, copies))

        yield start


@contextlib.contextmanager
def _serve(
    home: Path, name: str, words: Sequence[str], ready: str, copies: Sequence[Path]
) -> Iterator[Server]:
    root = home / "notebooks"
    root.mkdir()
    for path in copies:
        shutil.copyfile(path, root / path.name)
    config = home / "config"
    (config / "labconfig").mkdir(parents=True)
    # Without an answer to its question about news, Lab covers the page with it.
    (config / "labconfig" / "default_setting_overrides.json").write_text(
        '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}'
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        variable: value
        for variable, value in os.environ.items()
        if not variable.startswith(("JUPYTER", "MARIMO", "VOILA", "XDG_"))
    }
    environment |= {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(config),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    server = Server(f"http://127.0.0.1:{port}", secrets.token_hex(8), root, environment)
    filled = [word.format(port=port, token=server.token, root=root) for word in words]
    log = home / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", name, *filled],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        _wait_for(server.address(ready), process, log)
        yield server
    finally:
        _stop(process)


@pytest.fixture(scope="session")
def lab(start: Callable[..., Server]) -> Server:
    """One JupyterLab for the whole run."""
    options = ["--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"]
    return start("jupyterlab", [*JUPYTER, *options], ready="api/status")


@pytest.fixture(scope="session")
def notebook_7(start: Callable[..., Server]) -> Server:
    """One Jupyter Notebook for the whole run."""
    options = ["--JupyterNotebookApp.expose_app_in_browser=True"]
    return start("notebook", [*JUPYTER, *options], ready="api/status")


@pytest.fixture
def run_notebook(lab: Server) -> Callable[..., None]:
    """Open a notebook in Lab and run all of it: `run_notebook(page, path)`; a cell's error fails the test."""
    return partial(_run_notebook, lab, "doc/tree")


@pytest.fixture
def run_in_notebook_7(notebook_7: Server) -> Callable[..., None]:
    """Do the same in Jupyter Notebook."""
    return partial(_run_notebook, notebook_7, "notebooks")


@pytest.fixture
def shell(watch: Any) -> Iterator[Callable[..., None]]:
    """What a home's own page does, which is none of our fault: `shell(asks="font", says="reading 'schema'")`.

    asks: pattern of what it wants from the network. It is blocked all the same. says: pattern of its errors.
    Name this fixture before `page`, so that the page is closed when the lists are gone through.
    """
    known: list[tuple[str, str]] = []

    def shell(asks: str = "(?!)", says: str = "(?!)") -> None:
        known.append((asks, says))

    yield shell
    for asks, says in known:
        refused = any(re.search(asks, url) for url in watch.blocked)
        says += "|^Failed to load resource: net::ERR_FAILED$" if refused else ""
        watch.blocked[:] = [url for url in watch.blocked if not re.search(asks, url)]
        for errors in (watch.page_errors, watch.console_errors):
            errors[:] = [error for error in errors if not re.search(says, error)]


def _run_notebook(server: Server, place: str, page: Any, path: Path, seconds: int = 120) -> None:
    target = server.root / path.name
    if target != path:
        shutil.copyfile(path, target)
    page.goto(f"{server.address(f'{place}/{path.name}')}&reset")
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


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path, seconds: int = 120) -> None:
    # Straight to this machine, whatever proxy the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with opener.open(address, timeout=5):
                return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500:
                return
        except OSError:
            pass
        time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()[-3000:]}", pytrace=False)


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


@pytest.fixture
def drag_gpus_to_1024() -> Callable[[Any], None]:
    """Drag the first slider of n, which goes from 2^0 to 2^14, from 64 to 1024: `drag_gpus_to_1024(page)`."""

    def drag(page: Any) -> None:
        slider = page.locator(".control.n input[type=range]").first
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 8 + (box["width"] - 16) * 6 / 14, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 8 + (box["width"] - 16) * 10 / 14, middle, steps=5)
        page.mouse.up()

    return drag
