"""Files: every kind, complete or not at all, and harmless wherever they are opened."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from zerowidget import Setup, communication_rows, export, memory_rows, summary, timeline_rows, words
from zerowidget.charts import memory_chart
from zerowidget.export import CHARTS, SUFFIXES, as_csv, save
from zerowidget.specs import FIELDS

ARTICLE = Setup(N=7.5e9, n=64)


def test_charts_are_listed_once_and_all_of_them():
    from zerowidget import charts

    assert {function.__name__ for function in CHARTS.values()} == set(charts.__all__)
    assert all(function.__name__ == f"{name}_chart" for name, function in CHARTS.items())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_gives_a_file_of_its_kind(suffix, tmp_path):
    path = save(ARTICLE, tmp_path / f"figure{suffix}")
    assert path == tmp_path / f"figure{suffix}"
    assert os.listdir(tmp_path) == [f"figure{suffix}"]
    content = path.read_bytes()
    first = {
        ".svg": b"<svg",
        ".png": b"\x89PNG",
        ".pdf": b"%PDF",
        ".html": b"<!doctype html>",
        ".csv": b"stage,",
    }
    assert content.startswith(first.get(suffix, b"{"))


@pytest.mark.parametrize("chart", CHARTS)
def test_every_chart_is_saved_under_its_name(chart, tmp_path):
    svg = save(ARTICLE, tmp_path / "a.svg", chart=chart, theme="print", size="paper").read_text(
        encoding="utf-8"
    )
    title = {
        "memory": "What each GPU holds",
        "timeline": "One training step, stage 3",
        "matrix": "Which stage",
    }
    assert title.get(chart, "") in svg
    assert ET.fromstring(svg).get("width").startswith("320")


def test_a_string_is_a_path_too_and_case_does_not_matter(tmp_path):
    path = save(ARTICLE, str(tmp_path / "UPPER.SVG"))
    assert isinstance(path, Path)
    assert path.read_bytes().startswith(b"<svg")


def test_a_relative_path_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert save(ARTICLE, "rows.csv") == Path("rows.csv")
    assert (tmp_path / "rows.csv").exists()


def test_png_has_two_pixels_for_each_of_the_chart(tmp_path):
    png = save(ARTICLE, tmp_path / "a.png", size="paper").read_bytes()
    assert int.from_bytes(png[16:20], "big") == 640


def test_a_dark_picture_is_dark_to_its_edge(tmp_path):
    root = ET.fromstring(save(ARTICLE, tmp_path / "a.svg", theme="dark").read_text(encoding="utf-8"))
    edge = root.find("{http://www.w3.org/2000/svg}rect")
    assert (edge.get("fill"), edge.get("width")) == ("#17191d", root.get("width"))
    spec = json.loads(save(ARTICLE, tmp_path / "a.vl.json", theme="dark").read_text(encoding="utf-8"))
    assert spec["background"] == "#17191d"


def test_the_specification_is_the_chart(tmp_path):
    saved = json.loads(save(ARTICLE, tmp_path / "a.vl.json").read_text(encoding="utf-8"))
    assert saved == memory_chart(ARTICLE).to_dict()
    assert "url" not in json.dumps(saved["datasets"])


def test_json_holds_the_setup_and_all_rows(tmp_path):
    saved = json.loads(save(ARTICLE, tmp_path / "a.json").read_text(encoding="utf-8"))
    assert list(saved) == ["setup", "summary", "memory", "communication", "timeline"]
    assert Setup(**saved["setup"]) == ARTICLE
    assert saved["summary"] == summary(ARTICLE)
    assert saved["memory"] == memory_rows(ARTICLE)
    assert saved["communication"] == communication_rows(ARTICLE)
    assert saved["timeline"] == timeline_rows(ARTICLE)


@pytest.mark.parametrize(
    ("chart", "table"),
    [
        ("memory", memory_rows),
        ("timeline", timeline_rows),
        ("scaling", summary),
        ("ladder", summary),
        ("matrix", summary),
    ],
)
@pytest.mark.parametrize("n", [1, 64])
def test_csv_reads_back_as_the_rows(chart, table, n, tmp_path):
    setup = Setup(N=7.5e9, n=n)
    text = save(setup, tmp_path / "a.csv", chart=chart).read_bytes().decode("utf-8")
    assert text.count("\r\n") == text.count("\n") == len(table(setup)) + 1
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(read) == len(table(setup))
    for line, row in zip(read, table(setup), strict=True):
        assert list(line) == list(row)
        for name, cell in row.items():
            back = (
                {"": None, "True": True, "False": False}.get(line[name], line[name])
                if cell != ""
                else line[name]
            )
            assert (
                type(cell)(back) if isinstance(cell, (int, float)) and not isinstance(cell, bool) else back
            ) == cell


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_spreadsheet_takes_a_cell_for_a_formula(start):
    text = as_csv([{"op": f'{start}HYPERLINK("http://x")', "nbytes": -1.0}])
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["op"] == f'\'{start}HYPERLINK("http://x")'
    assert row["nbytes"] == "-1.0"  # a number is no text


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("a.gif", ValueError, r"path must be a file name ending in \.svg, .*\.json or \.csv, got '.*a\.gif'"),
        ("a", ValueError, r"path must be a file name ending in .*, got '.*a'"),
        ("none/a.svg", FileNotFoundError, r"path must be in a folder that exists, got '.*none/a\.svg'"),
        ("folder.svg", IsADirectoryError, r"path must be a file, not a folder, got '.*folder\.svg'"),
        ("file.txt/a.svg", FileNotFoundError, r"path must be in a folder that exists, got '.*'"),
        ("nul\0.svg", ValueError, r"path must be a path, got '.*'"),
    ],
)
def test_a_path_that_cannot_be_is_refused_in_one_line(path, kind, message, tmp_path):
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file.txt").touch()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(kind, match=f"^{message}$"):
        save(ARTICLE, f"{tmp_path}/{path}")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("path", [3, None, b"a.svg"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match=r"^path must be a path, got "):
        save(ARTICLE, path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chart": "pie"}, "chart must be memory, timeline, scaling, ladder or matrix, got 'pie'"),
        ({"theme": "x"}, "theme must be light, dark or print, got 'x'"),
        ({"size": 3}, "size must be screen, slide or paper, got 3"),
    ],
)
@pytest.mark.parametrize("suffix", [".svg", ".csv", ".html"])
def test_a_wrong_argument_is_refused_for_every_suffix(arguments, message, suffix, tmp_path):
    with pytest.raises(ValueError, match=f"^{message}$"):
        save(ARTICLE, tmp_path / f"a{suffix}", **arguments)
    assert os.listdir(tmp_path) == []


def fail(*_):
    raise OSError(28, "No space left on device")


def test_a_failure_halfway_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr(export.os, "replace", fail)
    message = r"^path must be in a place that can be written \(No space left on device\), got '.*a\.json'$"
    with pytest.raises(OSError, match=message):
        save(ARTICLE, path)
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_chart_that_cannot_be_drawn_leaves_the_old_file_too(tmp_path, monkeypatch):
    path = tmp_path / "a.svg"
    path.write_text("old", encoding="utf-8")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "as_picture", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(ARTICLE, path)
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["a.svg"]


def test_an_interrupt_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(export.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(ARTICLE, tmp_path / "a.csv")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="permissions are POSIX")
def test_permissions_follow_the_umask_and_a_file_keeps_its_own(tmp_path):
    old = os.umask(0o027)
    try:
        path = save(ARTICLE, tmp_path / "a.csv")
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o600)
        save(ARTICLE, path)
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.csv").touch()
    (tmp_path / "link.csv").symlink_to("real.csv")
    save(ARTICLE, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text(encoding="utf-8").startswith("stage,")


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_without_vl_convert_one_line_says_how_to_get_it(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=rf'^\{suffix} files need vl-convert: pip install "zerowidget\[export\]"$'
    ):
        save(ARTICLE, tmp_path / f"a{suffix}")
    assert os.listdir(tmp_path) == []


def test_rows_and_the_live_page_need_no_extra(tmp_path):
    code = (
        "import sys; sys.modules['altair'] = sys.modules['vl_convert'] = None\n"
        "import zerowidget; from zerowidget.export import save\n"
        "for name in ('a.html', 'a.json', 'a.csv'): save(zerowidget.Setup(), name)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "a.html", "a.json"]


def test_hostile_words_are_text_in_every_file(tmp_path, monkeypatch):
    hostile = "</script><img src=x onerror=alert(1)> \"'& <!-- \u05e9\u05dc\u05d5\u05dd \U0001f680"
    for key in ("parameters", "bars_title", "stage_0", "holds"):
        monkeypatch.setitem(words.WORDS, key, {"en": hostile, "zh": hostile})
    svg = save(ARTICLE, tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<img" not in svg
    assert any("onerror" in (node.text or "") for node in ET.fromstring(svg).iter())
    assert (
        hostile
        in json.loads(save(ARTICLE, tmp_path / "a.vl.json").read_text(encoding="utf-8"))["title"]["text"][0]
    )
    assert not re.search(r"<img[^>]*onerror", save(ARTICLE, tmp_path / "a.html").read_text(encoding="utf-8"))


def test_every_field_of_the_setup_is_saved(tmp_path):
    saved = json.loads(save(ARTICLE, tmp_path / "a.json").read_text(encoding="utf-8"))
    assert set(saved["setup"]) == set(FIELDS)
