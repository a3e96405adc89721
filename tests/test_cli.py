"""The command line, as a person or a script meets it."""

import errno
import json
import os
import subprocess
import sys

import pytest

from zerowidget import Setup, advice, summary
from zerowidget.cli import main
from zerowidget.specs import FIELDS


def run(*words, **environment):
    command = [sys.executable, "-m", "zerowidget", *words]
    env = os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False, encoding="utf-8")


def test_it_prints_the_numbers_of_the_article(capsys):
    assert main(["7.5e9", "64"]) == 0
    printed = capsys.readouterr().out
    lines = {line.split("  ")[0]: line for line in printed.splitlines() if line.startswith("Stage ")}
    for stage, number in enumerate(("111.8", "29.2", "15.5", "1.7")):
        assert f" {number} GiB" in lines[f"Stage {stage}"]
    assert "(1.5×)" in lines["Stage 3"]
    assert "Stage 1 is enough: 29.2 GiB, at no extra communication." in printed


def test_counts_can_be_written_as_people_write_them(capsys):
    main(["7.5B", "64"])
    short = capsys.readouterr().out
    for long in ("7_500_000_000", "7,500,000,000"):
        main([long, "64"])
        assert capsys.readouterr().out == short


def test_json_is_the_model_itself(capsys):
    main(["70b", "512", "--json", "--gpu", "A100-80GB", "--layers", "80", "--recompute"])
    content = json.loads(capsys.readouterr().out)
    setup = Setup(N=70e9, n=512, gpu="A100-80GB", layers=80, recompute=True)
    assert content["summary"] == summary(setup)
    assert content["advice"] == advice(setup)
    assert content["setup"]["layers"] == 80
    assert list(content) == ["setup", "summary", "memory", "communication", "advice"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("7.5e9", "0"), "n must be at least 1, got 0"),
        (("7.5e9", "2.5"), "n must be a whole number, got 2.5"),
        (("nan", "64"), "argument N: not a number: 'nan'; write 7.5e9, 7.5B or 350M"),
        (("many", "64"), "argument N: not a number: 'many'; write 7.5e9, 7.5B or 350M"),
        (("7.5e9", "few"), "argument n: not a number: 'few'; write 7.5e9, 7.5B or 350M"),
        (("7,5B", "64"), "argument N: not a number: '7,5B'; write 7.5e9, 7.5B or 350M"),
        (("7.5e9", "64", "--layers", "some"), "argument --layers: not a number: 'some'; write 7.5e9, "),
        (("1" + "0" * 5000, "64"), "N must be a finite number, got inf"),
        (("7.5e9", "64", "--stage", "4"), "stage must be 0, 1, 2 or 3, got 4"),
        (("7.5e9", "64", "--gpu", "H1000"), "gpu must be V100-16GB, "),
        (
            ("7.5e9", "64", "--layers", "1024", "--accumulation", "99"),
            "layers x accumulation must be at most",
        ),
        (("7.5e9",), "the following arguments are required: n"),
        (("7.5e9", "64", "--stag", "2"), "unrecognized arguments: --stag 2"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, says):
    done = run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_names_every_field():
    text = run("--help").stdout
    for name in FIELDS:
        assert (name if name in ("N", "n") else f"--{name.replace('_', '-')}") in text


def test_it_is_readable_when_the_terminal_knows_ascii_only():
    done = run("7.5e9", "64", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert "29.2 GiB" in done.stdout


def test_a_reader_that_leaves_early_is_no_error():
    code = "import sys; from zerowidget.cli import main; sys.exit(main(['7e9', '64', '--json']))"
    done = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.stdout is not None
    done.stdout.close()
    _, errors = done.communicate()
    assert errors == b""
    assert done.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words", [("7e9", "64"), ("7e9", "64", "--json"), ("embed", "7e9", "64"), ("--version",)]
)
def test_a_full_disk_is_one_line_and_exit_code_1(words, unbuffered):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "zerowidget", *words],
            stdout=full,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            encoding="utf-8",
        )
    assert done.returncode == 1
    assert done.stderr.startswith("zerowidget")
    assert done.stderr.endswith(f": {os.strerror(errno.ENOSPC)}\n")
    assert done.stderr.count("\n") == 1


def test_columns_line_up_in_both_languages(capsys):
    from zerowidget.text import width

    for language in ("en", "zh"):
        main(["7.5e9", "64", "--language", language])
        table = [line for line in capsys.readouterr().out.splitlines() if "GiB" in line][:4]
        ends = {width(line[: line.index("×)") + 2]) for line in table}
        assert len(ends) == 1


def test_version(capsys):
    import zerowidget

    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == zerowidget.__version__


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--overlap-comm", "maybe"], "argument --overlap-comm: true or false, got 'maybe'"),
        (["--reshard-after-forward", "2.5"], "reshard_after_forward must be True, False or a whole number"),
        (["--system", "fsdp2", "--shard-size", "3"], "shard_size must be a divisor of 64, got 3"),
        (["--param-dtype", "bf16"], "param_dtype must be float32, bfloat16 or float16, got 'bf16'"),
        (["--shapes", "/nowhere.json"], "argument --shapes: /nowhere.json: No such file or directory"),
    ],
)
def test_a_bad_knob_is_one_line(words, message):
    done = run("7.5e9", "64", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_none_is_a_value_of_fields_that_take_it(capsys):
    fields = ["--reduce-dtype", "none", "--overlap-comm", "TRUE", "--reshard-after-forward", "False"]
    assert main(["7.5e9", "64", "--json", "--compare", "none", *fields]) == 0
    setup = json.loads(capsys.readouterr().out)["setup"]
    assert (setup["reduce_dtype"], setup["overlap_comm"]) == (None, True)
    assert (setup["reshard_after_forward"], setup["compare"]) == (False, None)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a.0.w": [4, 4], "a.0.w": [2]}', "got 'a.0.w'"),
        ("null", "got {}"),
        ("[", "a JSON file, got"),
        ("[" * 100_000, "a JSON file, got"),
        ('{"a": ' + "1" * 2**20 + "}", "a file of at most 1048576 bytes"),
    ],
)
def test_a_file_of_shapes_is_data(tmp_path, content, says):
    path = tmp_path / "shapes.json"
    path.write_text(content, encoding="utf-8")
    done = run("-", "2", "--shapes", str(path))
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_shapes_say_how_many_parameters_there_are(tmp_path, capsys):
    path = tmp_path / "shapes.json"
    path.write_text('{"tok.weight": [10, 4], "blocks.0.up.weight": [8, 4], "head.weight": "tok.weight"}')
    assert main(["-", "2", "--shapes", str(path), "--json", "--system", "deepspeed"]) == 0
    assert json.loads(capsys.readouterr().out)["setup"]["N"] == 72
    assert run("-", "2").stderr.endswith("N must be a number unless --shapes is given, got '-'\n")
