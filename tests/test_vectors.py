"""The vectors that JavaScript must equal are what Python computes today."""

import importlib.util
import json
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("make_vectors", Path(__file__).with_name("make_vectors.py"))
make_vectors = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_vectors)


@pytest.mark.parametrize("name", make_vectors.FILES)
def test_the_vectors_are_what_python_computes(name):
    written = (make_vectors.VECTORS / name).read_text(encoding="utf-8").splitlines()
    expected = make_vectors.text_of(name).splitlines()
    stale = [
        f"line {index + 1}: {new[:100]}"
        for index, (old, new) in enumerate(zip(written, expected, strict=False))
        if old != new
    ]
    if stale or len(written) != len(expected):
        pytest.fail(
            f"tests/vectors/{name} is stale, {len(written)} lines of which {len(stale)} differ"
            f" from the {len(expected)} expected, first {stale[:1]}:"
            " if the new numbers are right, run `python tests/make_vectors.py`",
            pytrace=False,
        )


def test_the_setups_reach_every_choice_and_every_verdict():
    """A vector that never takes a branch pins nothing of it."""
    content = json.loads((make_vectors.VECTORS / "setups.json").read_text(encoding="utf-8"))
    setups = [make_vectors.Setup(**vector["setup"]) for vector in content["vectors"]]
    for name, rule in make_vectors.FIELDS.items():
        values = {getattr(setup, name) for setup in setups}
        if rule["type"] == "choice":
            optional = {None} if rule.get("optional") else set()
            assert values == set(make_vectors.options(name)) | optional, name
        else:
            assert len(values) > 1, name
    columns = content["columns"]["advice"]
    advices = [dict(zip(columns, vector["advice"][0], strict=True)) for vector in content["vectors"]]
    assert {advice["stage"] for advice in advices} == {None, 0, 1, 2, 3}
    assert {advice["fits_peak"] for advice in advices if advice["stage"] is not None} == {True, False}
    assert {advice["smallest_n"] is None for advice in advices if advice["stage"] is None} == {True, False}
