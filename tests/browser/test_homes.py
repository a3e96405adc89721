"""The widget in its homes, each started for real: notebooks, apps, and pages made of notebooks."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SLIDES = EXAMPLES / "02_slides.ipynb"
MARIMO = EXAMPLES / "04_marimo.py"
KERNEL_SAYS = """async ([code, expected]) => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  let text = "";
  const future = kernel.requestExecute({ code });
  future.onIOPub = (message) => { text += message.content.text ?? message.content.evalue ?? ""; };
  await future.done;
  return text.trim() === expected;
}"""
PATIENCE = 60_000  # milliseconds: a kernel and its page, on a machine that does other things too


def write_notebook(path, *cells):
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    content.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(content, path)
    return path


def assert_alive(picture, click=lambda label: label.click()):
    """A click on a stage changes what a picture says."""
    heading = picture.locator(".zw h3").first
    heading.wait_for(timeout=PATIENCE)
    for stage, size in ((2, "15.5"), (1, "29.2")):
        click(picture.locator(".control.stage label").nth(stage))
        expect(heading).to_have_text(f"Stage {stage} keeps {size} GiB on each GPU")


def assert_frame_alive(page, frame):
    """A real click in a frame that a deck scales, which Playwright's own does not see."""

    def click(label):
        x, y, scale = frame.evaluate(
            "f => { const b = f.getBoundingClientRect(); return [b.x, b.y, b.width / f.offsetWidth]; }"
        )
        inside = label.evaluate(
            "e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }"
        )
        left, top, width, height = inside
        page.mouse.click(x + (left + width / 2) * scale, y + (top + height / 2) * scale)

    assert_alive(frame.content_frame, click)


def test_notebook_7(shell, page, run_in_notebook_7, tmp_path, drag_gpus_to_1024):
    path = write_notebook(
        tmp_path / "home.ipynb", "from zerowidget import ZeroExplorer\nex = ZeroExplorer(N=7.5e9, n=64)\nex"
    )
    shell(says="reading 'schema'")  # Notebook says so of any document
    run_in_notebook_7(page, path)
    page.locator(".zw h3").first.wait_for(timeout=PATIENCE)
    assert page.locator(".jp-OutputArea iframe").count() == 0
    drag_gpus_to_1024(page)
    page.wait_for_function(KERNEL_SAYS, arg=["print(ex.n)", "1024"], timeout=PATIENCE)


def test_the_marimo_example_runs_from_top_to_bottom():
    subprocess.run([sys.executable, str(MARIMO)], check=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("mode", ["edit", "run"])
def test_marimo(page, start, tmp_path, mode, drag_gpus_to_1024):
    settings = tmp_path / "pyproject.toml"
    settings.write_text("[tool.marimo.runtime]\nauto_instantiate = true\n")  # run the cells, as `run` does
    words = [mode, "--headless", "--no-token", "--port={port}", "{root}/" + MARIMO.name]
    page.goto(start("marimo", words, ready="health", copies=[MARIMO, settings]).url)
    page.locator(".zw h3").first.wait_for(timeout=PATIENCE)
    said = page.get_by_text("Stage 3 on 64 GPUs")
    expect(said).to_be_visible()
    drag_gpus_to_1024(page)
    expect(page.get_by_text("Stage 3 on 1024 GPUs")).to_be_visible(timeout=PATIENCE)
    expect(said).to_be_hidden()


@pytest.fixture(scope="session")
def voila(start, tmp_path_factory):
    path = write_notebook(
        tmp_path_factory.mktemp("voila") / "home.ipynb",
        "import ipywidgets\nfrom zerowidget import ZeroExplorer\nex = ZeroExplorer(N=7.5e9, n=64)\nex",
        "said = ipywidgets.Label('nothing yet')\n"
        "ex.observe(lambda change: setattr(said, 'value', f'Python sees {change.new} GPUs'), 'n')\n"
        "said",
    )
    words = ["--no-browser", "--port={port}", "--Voila.ip=127.0.0.1", "--preheat_kernel=False"]
    return start("voila", [*words, "{root}/home.ipynb"], ready="voila/static/none", copies=[path])


def test_voila(shell, page, voila, drag_gpus_to_1024):
    shell(asks="fontawesome", says="remoteEntry")  # it also loads extensions that are meant for Notebook
    page.goto(voila.url, timeout=PATIENCE)
    page.locator(".zw h3").first.wait_for(timeout=PATIENCE)
    expect(page.get_by_text("nothing yet")).to_be_visible(timeout=PATIENCE)
    drag_gpus_to_1024(page)
    expect(page.get_by_text("Python sees 1024 GPUs")).to_be_visible(timeout=PATIENCE)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """02_slides.ipynb, run and saved with the state of its widgets, as is the default, and without."""
    folder = tmp_path_factory.mktemp("nbconvert")
    shutil.copyfile(SLIDES, folder / SLIDES.name)
    for name, options in (
        ("with", []),
        ("without", ["--ExecutePreprocessor.store_widget_state=False"]),
    ):
        convert(folder, SLIDES.name, "--execute", "--to", "notebook", "--output", name, *options)
        assert ("widgets" in nbformat.read(folder / f"{name}.ipynb", as_version=4).metadata) == (
            name == "with"
        )
    return folder


def convert(folder, *words):
    command = [sys.executable, "-m", "nbconvert", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def command_in_docs(word):
    """The words of the shell command of docs/homes.md that holds that word."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/homes.md").read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return shlex.split(found.replace("\\\n", " "))


@pytest.mark.parametrize("state", ["with", "without"])
def test_nbconvert_html(shell, page, saved, state):
    shell(asks="require|latest[.]js|mermaid|embed-amd")  # for formulas, diagrams and stored widgets
    convert(saved, "--to", "html", f"{state}.ipynb")
    page.goto((saved / f"{state}.html").as_uri())
    frames = page.locator("iframe")
    # two slides, and what stands in for the widget
    expect(frames).to_have_count(2 if state == "with" else 3)
    for index in range(frames.count()):
        assert_alive(frames.nth(index).content_frame)
    if state == "without":
        assert "111.8 GiB" in page.locator("table").inner_text()


@pytest.fixture(scope="session")
def beside(saved):
    """The folder of the saved notebooks, with what nbconvert's slides load put in, as docs/homes.md says."""
    ours = ROOT / "node_modules/reveal.js/dist"
    (saved / "reveal.js/plugin/notes").mkdir(parents=True)
    shutil.copytree(ours, saved / "reveal.js/dist")
    shutil.copyfile(ours / "plugin/notes.js", saved / "reveal.js/plugin/notes/notes.js")
    voila = Path(sys.prefix) / "share/jupyter/voila/templates/base/static"
    shutil.copyfile(voila / "require.min.js", saved / "require.min.js")
    return saved


@pytest.mark.parametrize("state", ["with", "without"])
def test_nbconvert_slides(shell, page, beside, state):
    # it cannot be told where Mermaid is; and without MathJax each change of slide is an error that does no harm
    shell(asks="mermaid|embed-amd", says="MathJax is not defined")
    program, command, *words = command_in_docs("reveal_url_prefix")
    assert (program, command) == ("jupyter", "nbconvert")
    words = [f"{state}.ipynb" if word == "lecture.ipynb" else word for word in words]
    convert(beside, *words, "--SlidesExporter.reveal_transition=none")
    page.goto((beside / f"{state}.slides.html").as_uri())
    page.locator(".reveal.ready").wait_for()
    alive = 0
    for index in range(1, 6):
        page.locator("button.navigate-right").click()
        page.wait_for_url(f"**#/{index}")
        picture = page.locator("section.present iframe")
        if picture.count():
            assert_frame_alive(page, picture)
            alive += 1
    assert alive == (2 if state == "with" else 3)


def test_a_saved_notebook_in_lab(page, lab, run_notebook, tmp_path):
    path = write_notebook(
        tmp_path / "saved.ipynb",
        "from zerowidget import ZeroExplorer\nex = ZeroExplorer(N=7.5e9, n=64, stage=1)\nex",
        "ex.slide()",
    )
    run_notebook(page, path)
    heading = page.locator(".zw h3").first
    heading.wait_for(timeout=PATIENCE)
    # the widget itself, not what stands in for it: the one frame is the slide's
    expect(page.locator(".jp-OutputArea iframe")).to_have_count(1)
    page.evaluate(
        """async () => {
          const { context, sessionContext } = jupyterapp.shell.currentWidget;
          await jupyterapp.commands.execute("@jupyter-widgets/jupyterlab-manager:saveWidgetState");
          await context.save();
          await sessionContext.shutdown();
        }"""
    )
    # opened again, not run: the picture is there, and alive
    page.goto("about:blank")
    page.goto(lab.address(f"doc/tree/{path.name}") + "&reset")
    expect(heading).to_have_text("Stage 1 keeps 29.2 GiB on each GPU", timeout=PATIENCE)
    assert_alive(page)
    assert_alive(page.locator(".jp-OutputArea iframe").content_frame)
    # from someone else: nothing of it may run, and the numbers are there
    content = nbformat.read(lab.root / path.name, as_version=4)
    content.cells[0].source += "  # changed, so its signature does not hold"
    nbformat.write(content, lab.root / "foreign.ipynb")
    page.goto("about:blank")
    page.goto(lab.address("doc/tree/foreign.ipynb") + "&reset")
    output = page.locator(".jp-OutputArea-output")
    for which in (output.first, output.last):
        expect(which).to_contain_text("111.8 GiB", timeout=PATIENCE)
    assert page.locator(".zw, iframe").count() == 0
