"""A person in the loop: files go out, answers come back, mistakes get one sentence each."""

import csv
import json
import shutil

import numpy as np
import pytest

from credax.active.folder import LoopFolder
from credax.active.state import load_state
from credax.cli.main import main
from credax.cli.person_run import open_run
from credax.data.unlabelled import read_unlabelled_pictures
from credax.report.png import encode_png

FAST = ["--quiet", "--members", "2", "--epochs", "5", "--query", "4", "--network-options"]
FAST += ["hidden=(8,)"]


def truth(row):
    """The label of a row, from 1."""
    return ("red", "green", "blue")[row % 3]


def write_pool(path, labelled=6, header=("id", "colour", "size", "label")):
    """Forty rows as a German spreadsheet writes them: semicolons, decimal commas, missing cells."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(header)
        for row in range(1, 41):
            size = "" if row % 9 == 0 else f"{row % 3 + row / 100:.2f}".replace(".", ",")
            name = "=cmd()" if row == 3 else f"item {row}"
            label = truth(row) if row <= labelled else ""
            cells = [name, "dark" if row % 2 else "light", size, label]
            writer.writerow(cells[: len(header)])


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run that has asked its first question."""
    place = tmp_path_factory.mktemp("person")
    write_pool(place / "pool.csv")
    flags = ["--data", str(place / "pool.csv"), "--target", "label", "--id", "id"]
    assert main(["active", "start", *flags, "--out", str(place / "run"), *FAST]) == 0
    (place / "pool.csv").unlink()  # the run keeps what it needs
    return place / "run"


@pytest.fixture
def run(begun, tmp_path):
    """A copy of it, to be told answers."""
    shutil.copytree(begun, tmp_path / "run")
    return tmp_path / "run"


def questions(run):
    with open(run / "to_label.csv", newline="") as file:
        return list(csv.DictReader(file))


def fill(run, count, path=None, label=truth):
    """Answer the first questions, and put them into another order."""
    rows = questions(run)
    for row in rows[:count]:
        row["label"] = label(int(row["row"]))
    with open(path or run / "to_label.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[::-1])


def asked(run):
    return sorted(int(row["row"]) for row in questions(run))


def test_the_first_question_has_rows_scores_reasons_and_an_empty_column(begun):
    rows = questions(begun)
    assert list(rows[0]) == ["row", "id", "colour", "size", "score", "why", "label"]
    assert len(rows) == 4
    assert all(int(row["row"]) > 6 and row["label"] == "" for row in rows)
    assert all("votes: " in row["why"] and float(row["score"]) >= 0 for row in rows)
    assert rows[0]["id"] == f"item {rows[0]['row']}"


def test_answers_are_taken_in_any_part_and_order(run, capsys):
    fill(run, 3)
    first = asked(run)
    assert main(["active", "tell", str(run), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "3 labels; before them the model would have said" in said
    assert "9 of 40 rows have labels" in said
    state, _ = load_state(run)
    labels = open_run(LoopFolder(run))
    told = [labels.label_text(label) for label in state.labels]
    assert told == [truth(row + 1) for row in state.labelled.tolist()]
    assert len(set(first) & {row + 1 for row in state.labelled.tolist()}) == 3
    assert [path.name for path in (run / "rounds").iterdir()] == ["001"]
    assert not {row["label"] for row in questions(run)} - {""}


def test_status_says_what_to_do_next(begun, capsys):
    assert main(["active", "status", str(begun)]) == 0
    said = capsys.readouterr().out
    assert "6 of 40 rows have labels: blue 2, green 2, red 2" in said
    assert f"then: credax active tell {begun}" in said
    assert main(["active", "status", str(begun), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["asked"] == [int(row["row"]) for row in questions(begun)]
    assert found["labels"] == 6


def test_answers_told_before_a_crash_are_kept(run, monkeypatch):
    """The answers are on disk before training begins; the next tell goes on without a file."""
    from credax.cli import active_person

    fill(run, 4)

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(active_person, "next_round", crash)
        with pytest.raises(KeyboardInterrupt):
            main(["active", "tell", str(run), "--quiet"])
    assert len(load_state(run)[0].labelled) == 10
    assert main(["active", "tell", str(run), "--quiet"]) == 0
    assert len(asked(run)) == 4
    assert load_state(run)[0].rounds[-1].labels == 10


def test_a_begun_file_is_never_overwritten(run, tmp_path, capsys):
    """Answers in to_label.csv that were not told, while another file was."""
    fill(run, 1, tmp_path / "labels.csv")
    fill(run, 4, label=lambda row: "red")
    before = (run / "to_label.csv").read_bytes()
    assert main(["active", "tell", str(run), str(tmp_path / "labels.csv"), "--quiet"]) == 0
    assert "it is now to_label_1.csv" in capsys.readouterr().out
    assert (run / "to_label_1.csv").read_bytes() == before


def test_rows_asked_for_earlier_may_still_be_answered(run, tmp_path):
    old = tmp_path / "old.csv"
    fill(run, 4, old)
    fill(run, 1)
    answered = {int(row["row"]) for row in questions(run) if row["label"]}
    assert main(["active", "tell", str(run), "--quiet"]) == 0
    assert main(["active", "tell", str(run), str(old), "--quiet"]) == 0
    assert len(load_state(run)[0].labelled) == 6 + 4
    assert len(answered) == 1


def test_rows_may_be_named_by_their_own_id(run, tmp_path):
    rows = questions(run)
    lines = [f"{row['id']},{truth(int(row['row']))}\n" for row in rows[:2]]
    (tmp_path / "own.csv").write_text("".join(["id,label\n", *lines]))
    assert main(["active", "tell", str(run), str(tmp_path / "own.csv"), "--quiet"]) == 0
    assert len(load_state(run)[0].labelled) == 8


def told(run, tmp_path, text, *flags):
    (tmp_path / "answers.csv").write_text(text)
    return main(["active", "tell", str(run), str(tmp_path / "answers.csv"), "--quiet", *flags])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("row,label\n{row},rad\n", "did you mean 'red'"),
        ("row,label\n{row},mauve\n", "pass --new-classes"),
        ("row,label\n1,mauve\n", "none of the classes"),
        ("row,label\n1,red\n", "was told to be 'green' before"),
        ("row,label\n{free},red\n", "was not asked for"),
        ("row,label\n41,red\n", "the rows 1 to 40"),
        ("row,label\nx,red\n", "row is 'x'"),
        ("row,label\n{row},red\n{row},green\n", "give one answer for each row"),
        ("row,colour\n{row},red\n", "no column 'label'"),
        ("line,label\n{row},red\n", "no column 'row' or 'id'"),
        ("id,label\nnobody,red\n", "'nobody' is not in the pool"),
        ("row,label\n{row},\n", "no new answers"),
    ],
)
def test_wrong_answers_get_one_sentence_and_change_nothing(run, tmp_path, capsys, text, words):
    here = asked(run)
    free = next(row for row in range(7, 41) if row not in here)
    before = (run / "state.safetensors").read_bytes()
    assert told(run, tmp_path, text.format(row=here[0], free=free)) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert (run / "state.safetensors").read_bytes() == before


def test_answers_can_be_corrected_and_classes_added_when_it_is_said(run, tmp_path):
    here = asked(run)
    text = f"row,label\n1,red\n{here[0]},mauve\n"
    assert told(run, tmp_path, text, "--new-classes", "--correct") == 0
    found = open_run(LoopFolder(run))
    labels = dict(zip(found.state.labelled.tolist(), found.state.labels.tolist(), strict=True))
    assert found.label_text(labels[0]) == "red"
    assert found.label_text(labels[here[0] - 1]) == "mauve"
    assert found.standing.classes == ("blue", "green", "red", "mauve")
    assert found.state.rounds[-1].members == 2


def test_without_labels_the_first_rows_are_random_and_say_so(tmp_path, capsys):
    write_pool(tmp_path / "pool.csv", header=("id", "colour", "size"))
    run = tmp_path / "run"
    flags = ["--data", str(tmp_path / "pool.csv"), "--target", "label", "--ignore", "id"]
    assert main(["active", "start", *flags, "--out", str(run), "--initial", "5", *FAST]) == 0
    assert "chosen at random: there are no labels yet" in capsys.readouterr().out
    assert len(asked(run)) == 5
    fill(run, 2, label=lambda row: "red")
    assert main(["active", "tell", str(run), "--quiet"]) == 0  # one class: nothing to train on
    assert "all labels are 'red'" in capsys.readouterr().out
    fill(run, 5)
    assert main(["active", "tell", str(run), "--quiet", "--new-classes"]) == 0
    assert "votes: " in questions(run)[0]["why"]


def test_formulas_of_the_pool_are_harmless_in_a_spreadsheet(tmp_path):
    write_pool(tmp_path / "pool.csv", labelled=0)
    run = tmp_path / "run"
    flags = ["--data", str(tmp_path / "pool.csv"), "--target", "label", "--ignore", "id"]
    assert main(["active", "start", *flags, "--out", str(run), "--initial", "40", *FAST]) == 0
    assert {row["row"]: row["id"] for row in questions(run)}["3"] == "'=cmd()"


def test_labelled_rows_may_lie_in_a_table_of_their_own(tmp_path, capsys):
    write_pool(tmp_path / "pool.csv", header=("id", "colour", "size"))
    write_pool(tmp_path / "seen.csv", labelled=40)
    flags = ["--data", str(tmp_path / "pool.csv"), "--target", "label", "--ignore", "id"]
    flags += ["--labels", str(tmp_path / "seen.csv"), "--test", str(tmp_path / "seen.csv")]
    assert main(["active", "start", *flags, "--out", str(tmp_path / "run"), *FAST]) == 0
    said = capsys.readouterr().out
    assert "40 of 80 rows have labels" in said
    assert "on the test rows, trained on 40 labels: accuracy" in said
    assert max(asked(tmp_path / "run")) <= 40


def test_numbers_are_asked_for_too(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = [
        f"{x:.3f},{x * x:.4f}" if i < 8 else f"{x:.3f}," for i, x in enumerate(rng.normal(size=30))
    ]
    (tmp_path / "pool.csv").write_text("\n".join(["x,y", *lines, ""]))
    run = tmp_path / "run"
    flags = ["--data", str(tmp_path / "pool.csv"), "--target", "y", "--out", str(run)]
    assert main(["active", "start", *flags, *FAST]) == 0
    row = questions(run)[0]
    assert "members disagree by" in row["why"]
    assert told(run, tmp_path, f"row,y\n{row['row']},many\n") == 2
    assert "give a finite number" in capsys.readouterr().err


def test_another_file_or_setting_does_not_go_on_with_a_run(tmp_path, capsys):
    write_pool(tmp_path / "pool.csv", labelled=0)
    flags = ["--data", str(tmp_path / "pool.csv"), "--target", "label", "--ignore", "id"]
    flags += ["--out", str(tmp_path / "run"), *FAST]
    assert main(["active", "start", *flags]) == 0
    assert main(["active", "start", *flags]) == 0  # the same command goes on
    assert main(["active", "start", *flags, "--query", "5"]) == 2
    assert "settings.query is 4 there and 5 here" in capsys.readouterr().err
    write_pool(tmp_path / "pool.csv", labelled=1)
    assert main(["active", "start", *flags]) == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--data", "nowhere.csv", "--target", "label"], "data is nowhere.csv"),
        (["--data", "{pool}"], "target is missing"),
        (["--data", "{pool}", "--target", "label", "--method", "deep"], "unknown method"),
        (["--data", "{pool}", "--target", "label", "--acquisition", "balb"], "did you mean 'bald'"),
        (["--data", "{pool}", "--target", "label", "--query", "0"], "query is 0"),
        (["--data", "{pool}", "--target", "label", "--steps", "0"], "steps is 0"),
        (["--data", "{pool}", "--target", "label", "--method", "single"], "bald measures"),
        (
            ["--data", "{pool}", "--target", "label", "--id", "id", "--query", "99"],
            "query is 99 and pool.csv has 34 rows without a label",
        ),
        (["--data", "{pool}", "--target", "label", "--network", "my.py:f"], "code of your own"),
        (["--data", "{pool}", "--target", "label", "--acquisition", "bald:k=1"], "option of"),
    ],
)
def test_bad_starts_are_refused_in_one_sentence(tmp_path, capsys, flags, words):
    write_pool(tmp_path / "pool.csv")
    flags = [flag.format(pool=tmp_path / "pool.csv") for flag in flags]
    assert main(["active", "start", *flags, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_is_no_run_is_refused(tmp_path, capsys):
    for command in ("tell", "status"):
        assert main(["active", command, str(tmp_path / "nothing")]) == 2
        assert "is not a run of credax active" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
    assert main(["active", "ask"]) == 2


def write_pictures(folder, rng):
    for name in ("cat", "dog", "unlabelled"):
        (folder / name).mkdir(parents=True)
    for number in range(14):
        pixels = rng.integers(0, 255, (9, 12, 1)).astype(np.uint8)
        place = {0: "cat", 1: "dog", 2: "unlabelled"}.get(number, ".")
        (folder / place / f"p{number}.png").write_bytes(encode_png(pixels))
    (folder / "broken.png").write_bytes(b"no picture")


def test_pictures_are_copied_beside_a_page_that_shows_them(tmp_path, capsys):
    folder, run = tmp_path / "pictures", tmp_path / "run"
    write_pictures(folder, np.random.default_rng(0))
    rows = read_unlabelled_pictures(folder)
    assert rows.x.shape == (14, 9, 12, 1)
    assert sorted(filter(None, rows.labels)) == ["cat", "dog"]
    flags = ["--data", str(folder), "--out", str(run), *FAST[:-2], "--network", "mlp"]
    assert main(["active", "start", *flags, *FAST[-2:]]) == 0
    assert "1 of 15 pictures are left out" in capsys.readouterr().out
    names = sorted(path.name for path in (run / "to_label").iterdir())
    assert len(names) == 5
    assert names[-1] == "index.html"
    page = (run / "to_label" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "http" not in page.replace("http-equiv", "")
    row = questions(run)[0]
    original = (folder / row["picture"]).read_bytes()
    copied = f"{int(row['row']):05d}_{row['picture'].split('/')[-1]}"
    assert (run / "to_label" / copied).read_bytes() == original
    shutil.rmtree(folder)  # the run keeps what the network sees
    fill(run, 4, label=lambda row: "cat")
    assert main(["active", "tell", str(run), "--quiet"]) == 0
    assert len(list((run / "to_label").iterdir())) == 5
