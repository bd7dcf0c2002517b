"""``credax report`` of several runs: variants of one method, and where the page comes from."""

import re

import pytest

from credax.cli import main

FIT = ["fit", "swag", "--data", "toy/two-moons", "--epochs", "8", "--samples", "3", "--quiet"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name, flags in {"one": ["--rank", "2"], "two": ["--rank", "3"]}.items():
        assert main([*FIT, *flags, "--out", str(root / name)]) == 0
    return root


def test_two_variants_of_one_method_are_told_apart(runs, tmp_path):
    page = tmp_path / "page.html"
    assert main(["report", str(runs / "one"), str(runs / "two"), "--out", str(page)]) == 0
    text = page.read_text()
    assert "<h1>SWAG (rank 2) against SWAG (rank 3)</h1>" in text
    assert "With one seed per method no standard error is known" in text


def test_one_run_twice_is_refused_in_one_sentence(runs, tmp_path, capsys):
    one = str(runs / "one")
    assert main(["report", one, one, "--out", str(tmp_path / "page.html")]) != 0
    error = capsys.readouterr().err
    assert "'SWAG' with seed 0 twice" in error
    assert len(error.strip().splitlines()) <= 2


def test_the_page_names_its_command_rows_and_date(runs, tmp_path):
    page = tmp_path / "page.html"
    assert main(["report", str(runs / "one"), "--out", str(page)]) == 0
    text = page.read_text()
    header = text[text.index("<header>") : text.index("</header>")]
    assert f"credax report {runs / 'one'} --out {page}" in header
    assert re.search(r"[\d\u202f]+ training, [\d\u202f]+ test", header)
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", header)
    assert "1 seed (seed 0)" in header
    assert "Rows per split and class" in header
