"""The list of defects keeps to the source and to the page; `defects.py` itself tries them."""

import re

import pytest
from defects import DEFECTS, ROOT, SOURCE, attempt

PAGE = ROOT / "docs" / "methods" / "defects.md"


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_has_its_place_its_test_and_its_row(name):
    for file, ours, theirs in DEFECTS[name].edits:
        assert (SOURCE / file).read_text().count(ours) == 1
        assert ours != theirs
    path, test = DEFECTS[name].test.split("::")
    assert f"\ndef {test}(" in (ROOT / "tests" / path).read_text()
    rows = [line for line in PAGE.read_text().splitlines() if f"`{test}`" in line]
    assert any(f"| {DEFECTS[name].id} |" in row for row in rows)


def test_the_page_has_no_rows_of_its_own():
    tests = {defect.test.split("::")[1] for defect in DEFECTS.values()}
    assert set(re.findall(r"`(test_\w+)`", PAGE.read_text())) == tests


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swag-doubles-the-variance", "cycles-by-whole-division"])
def test_a_defective_version_fails(name):
    """The way itself works; all defects are tried by `python tests/methods/defects.py`."""
    failed, said = attempt(DEFECTS[name])
    assert failed, said
