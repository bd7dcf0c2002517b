"""Every defect of public code that we list has its test and its row on the page, and no others."""

import re

import pytest
from defects import DEFECTS, ROOT

PAGE = ROOT / "docs" / "methods" / "defects.md"


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_has_its_test_and_its_row(name):
    path, test = DEFECTS[name].test.split("::")
    assert f"\ndef {test}(" in (ROOT / "tests" / path).read_text()
    assert f"`{test}`" in PAGE.read_text()


def test_the_page_has_no_rows_of_its_own():
    tests = {defect.test.split("::")[1] for defect in DEFECTS.values()}
    assert set(re.findall(r"`(test_\w+)`", PAGE.read_text())) == tests
