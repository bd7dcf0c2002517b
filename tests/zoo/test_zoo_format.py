"""Our format: slices, appending, crashes, damage; published files: read, refused, round trip."""

import io
import json
import struct
import tarfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save as safetensors_bytes

import credax as cx
from credax.errors import InputError
from credax.files import DamagedFile
from credax.quality import as_blocks, maximum_mean_discrepancy
from credax.reading.tensors import parse
from credax.zoo import (
    MAPS,
    DamagedMember,
    Manifest,
    Zoo,
    ZooWriter,
    export_checkpoints,
    import_checkpoints,
    read_checkpoints,
)
from credax.zoo.names import guess

NETWORK = {"name": "mlp", "options": {"hidden": (5,)}, "outputs": 3}


def manifest(**options):
    problem = cx.Problem(cx.networks.MLP((5,), outputs=3), cx.Categorical())
    return Manifest.of(problem, np.zeros((1, 4), np.float32), NETWORK, "categorical", **options)


def member(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return {n: (scale * rng.standard_normal(s)).astype("f4") for n, s in manifest().shapes.items()}


def write(folder, count, **options):
    with ZooWriter(folder, manifest(**options)) as writer:
        for i in range(count):
            writer.append(member(i), {"name": f"net-{i}", "test_accuracy": i / 10})
        writer.finish()
    return Zoo.open(folder)


def test_what_is_written_is_read(tmp_path):
    zoo = write(tmp_path / "zoo", 11, shard_members=4)
    assert [shard.members for shard in zoo.manifest.shards] == [4, 4, 3]
    assert sorted(p.name for p in zoo.folder.iterdir() if p.name[0] != ".") == [
        "members.jsonl",
        "shard-00000.safetensors",
        "shard-00001.safetensors",
        "shard-00002.safetensors",
        "zoo.json",
    ]
    for name in zoo.manifest.shapes:
        expected = np.stack([member(i)[name] for i in range(11)])
        np.testing.assert_array_equal(zoo[:, name], expected)
        np.testing.assert_array_equal(zoo[3:9, name], expected[3:9])
    # Any safetensors reader reads a shard.
    other = load_file(zoo.folder / "shard-00001.safetensors")
    np.testing.assert_array_equal(other["params/0_dense/bias"][2], member(6)["params/0_dense/bias"])
    some = zoo.take([1, 5, 10])
    assert some.chosen == (1, 5, 10)
    got = some.read("0_dense/kernel", slice(2, 7))
    expected = [member(i)["params/0_dense/kernel"].reshape(-1)[2:7] for i in (1, 5, 10)]
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_allclose(zoo.values("test_accuracy"), np.arange(11) / 10)


def test_a_slice_is_a_memory_map_and_not_a_copy(tmp_path):
    zoo = write(tmp_path / "zoo", 6)
    part = zoo[2:5, "0_dense/kernel"]
    assert isinstance(part, np.memmap)
    assert part.base is not None
    assert not part.flags.owndata


def test_a_population_predicts_what_the_network_says(tmp_path):
    zoo = write(tmp_path / "zoo", 5, shard_members=2)
    population = zoo.population([1, 3])
    assert population.indices == (1, 3)
    x = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)
    one = member(3)
    hidden = np.maximum(x @ one["params/0_dense/kernel"] + one["params/0_dense/bias"], 0)
    logits = hidden @ one["params/1_dense/kernel"] + one["params/1_dense/bias"]
    expected = np.exp(logits - logits.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(population.predict(x).members[1], expected, atol=1e-5)


def test_comparisons_stream_a_zoo(tmp_path):
    zoo = write(tmp_path / "zoo", 12, shard_members=5)
    first, second = zoo.take(slice(0, 6)), zoo.take(slice(6, 12))
    plain = {"permutations": 0, "resamples": 0, "repeats": 0}
    streamed = maximum_mean_discrepancy(first, second, block_entries=50, **plain)
    held = maximum_mean_discrepancy(first.population(), second.population(), **plain)
    assert as_blocks(first) is first
    assert streamed.unbiased == pytest.approx(held.unbiased, abs=1e-10)
    assert set(streamed.per_array) == set(held.per_array) == set(zoo.paths)


def test_appending_adds_shards_and_other_networks_are_refused(tmp_path):
    folder = tmp_path / "zoo"
    write(folder, 3, shard_members=4)
    before = (folder / "shard-00000.safetensors").read_bytes()
    with ZooWriter(folder, manifest(shard_members=4)) as writer:
        assert writer.count == 3
        for i in range(3, 9):
            writer.append(member(i), {})
        writer.finish()
    zoo = Zoo.open(folder)
    assert [shard.members for shard in zoo.manifest.shards] == [3, 4, 2]
    assert (folder / "shard-00000.safetensors").read_bytes() == before
    np.testing.assert_array_equal(zoo[8:9, "0_dense/bias"][0], member(8)["params/0_dense/bias"])
    with pytest.raises(InputError, match="other networks or settings"):
        ZooWriter(folder, manifest(shard_members=4, storage="float16"))


def test_a_crash_loses_only_what_was_not_flushed(tmp_path):
    """Killed in the middle, then gone on with: the same bytes as without."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    write(whole, 9, shard_members=4)
    writer = ZooWriter(broken, manifest(shard_members=4))
    for i in range(7):
        writer.append(member(i), {"name": f"net-{i}", "test_accuracy": i / 10})
        if i == 5:
            writer.flush()
    writer.__exit__()  # what a killed process leaves: six records, seven members' numbers
    with open(broken / "members.jsonl", "a") as file:
        file.write('{"index": 6, "sta')
    with ZooWriter(broken, manifest(shard_members=4)) as writer:
        assert writer.count == 6
        for i in range(6, 9):
            writer.append(member(i), {"name": f"net-{i}", "test_accuracy": i / 10})
        writer.finish()
    for path in whole.glob("*.*"):
        assert path.read_bytes() == (broken / path.name).read_bytes(), path.name


def test_one_damaged_member_of_many_is_named_and_left_out(tmp_path):
    zoo = write(tmp_path / "zoo", 10)
    assert zoo.damage() == {}
    path = zoo.folder / "shard-00000.safetensors"
    content = bytearray(path.read_bytes())
    arrays = load_file(path)
    target = arrays["params/1_dense/kernel"][7].tobytes()
    content[bytes(content).index(target)] ^= 1
    path.write_bytes(content)
    assert list(zoo.damage()) == [7]
    with pytest.warns(DamagedMember, match=r"member 7 \(net-7\) is damaged"):
        left = Zoo.open(zoo.folder, verify=True)
    assert left.members == 9
    assert 7 not in left.chosen
    path.write_bytes(content[:-40])
    with pytest.warns(DamagedMember), pytest.raises(InputError, match="no usable members"):
        Zoo.open(zoo.folder, verify=True)


def test_half_precision_rounds_by_what_it_says_and_refuses_overflow(tmp_path):
    zoo = write(tmp_path / "zoo", 3, storage="float16")
    exact, stored = member(1)["params/0_dense/kernel"], zoo[1:2, "0_dense/kernel"][0]
    assert stored.dtype == np.float16
    assert np.max(np.abs(stored - exact) / np.abs(exact)) < 5e-4
    assert zoo.read("0_dense/kernel", slice(0, 2)).dtype == np.float32
    writer = ZooWriter(tmp_path / "large", manifest(storage="float16"))
    with writer, pytest.raises(InputError, match="member 0 has numbers above 65504"):
        writer.append(member(0, scale=1e6), {})


def test_map_goes_on_where_it_stopped(tmp_path):
    zoo = write(tmp_path / "zoo", 10)
    calls = []

    def norm(population):
        calls.append(population.indices)
        if len(calls) == 3:
            raise KeyboardInterrupt
        leaf = population.variables.params["0_dense"]["kernel"]
        return {"norm": jnp.linalg.norm(leaf.reshape(len(leaf), -1), axis=1)}

    with pytest.raises(KeyboardInterrupt):
        zoo.map(norm, batch_size=3, folder=tmp_path / "norms")
    result = zoo.map(norm, batch_size=3, folder=tmp_path / "norms")
    assert calls == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (6, 7, 8), (9,)]
    expected = [np.linalg.norm(member(i)["params/0_dense/kernel"]) for i in range(10)]
    np.testing.assert_allclose(result["norm"], expected, rtol=1e-5)
    with pytest.raises(InputError, match="other members"):
        zoo.take(slice(1, 10)).map(norm, batch_size=3, folder=tmp_path / "norms")
    with pytest.raises(InputError, match="first axis must be members"):
        zoo.map(lambda population: {"one": np.zeros(1)})


# Published files.


def published(name, seed, outputs=10):
    """A checkpoint in the published form: their names and layouts, float16, batch counters."""
    table = MAPS[name]
    problem = cx.Problem(table.build(outputs), cx.Categorical())
    example = jax.ShapeDtypeStruct((1, *table.input_shape), "float32")
    shapes = Manifest.of(problem, example, {}, "categorical").shapes
    rng = np.random.default_rng(seed)
    ours = {n: rng.standard_normal(s).astype(np.float16) for n, s in shapes.items()}
    ours = {n: np.abs(a) if n.endswith("variance") else a for n, a in ours.items()}
    theirs = table.theirs(ours)
    for key in [k for k in theirs if k.endswith("running_mean")]:
        theirs[key.replace("running_mean", "num_batches_tracked")] = np.array(7, np.int64)
    return theirs


def archive(path, contents, folder="mnist-optunet"):
    with tarfile.open(path, "w:gz") as file:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"{folder}/{name}.safetensors")
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return path


@pytest.fixture
def optunets(tmp_path):
    contents = {f"{i}": safetensors_bytes(published("optunet", i)) for i in range(12)}
    return archive(tmp_path / "mnist-optunet-0-11.tgz", contents), contents


def test_names_and_shapes_are_the_published_ones():
    theirs = published("resnet18", 0, outputs=100)
    assert theirs["conv1.weight"].shape == (64, 3, 3, 3)
    assert theirs["layer2.0.shortcut.0.weight"].shape == (128, 64, 1, 1)
    assert theirs["layer4.1.bn2.running_var"].shape == (512,)
    assert theirs["linear.weight"].shape == (100, 512)
    learned = [a for n, a in theirs.items() if "running" not in n and "num_batches" not in n]
    assert sum(a.size for a in learned) == 11_220_132  # 11.2 million, as published
    frn = published("resnet20-frn-silu", 0)
    assert frn["layer1.0.bn1.tau"].shape == (1, 16, 1, 1)
    assert frn["layer3.0.shortcut.1.gamma"].shape == (1, 64, 1, 1)
    optunet = published("optunet", 0)
    assert optunet["conv2.weight"].shape == (10, 1, 5, 5)
    assert sum(a.size for a in optunet.values()) == 355
    assert guess("cifar10-resnet20-frn-silu-0-1023.tgz").name == "resnet20-frn-silu"
    with pytest.raises(InputError, match="--architecture"):
        guess("weights.tgz")


def test_an_archive_is_imported_and_exported_bit_for_bit(optunets, tmp_path):
    place, contents = optunets
    zoo = import_checkpoints(place, tmp_path / "zoo", shard_members=5)
    assert zoo.members == 12
    assert zoo.manifest.storage == "float16"
    assert [record["name"] for record in zoo.records] == list(contents)
    export_checkpoints(zoo, tmp_path / "again.tgz")
    for checkpoint in read_checkpoints(tmp_path / "again.tgz"):
        expected = parse(contents[checkpoint.name], "")
        assert set(checkpoint.arrays) == set(expected)
        for name, array in expected.items():
            assert array.dtype == checkpoint.arrays[name].dtype
            np.testing.assert_array_equal(array, checkpoint.arrays[name])


def test_an_imported_optunet_computes_what_the_published_one_does(optunets, tmp_path):
    """The published forward pass in loops, from their arrays."""
    zoo = import_checkpoints(optunets[0], tmp_path / "zoo")
    arrays = {n: a.astype(np.float64) for n, a in published("optunet", 4).items()}
    x = np.random.default_rng(1).standard_normal((28, 28))

    def windows(image, size):
        return np.lib.stride_tricks.sliding_window_view(image, (size, size))

    first = np.stack([(windows(x, 4) * k[0]).sum((2, 3)) for k in arrays["conv1.weight"]])
    first = np.maximum(first, 0)[:, :24, :24].reshape(2, 8, 3, 8, 3).max((2, 4))
    second = [
        (windows(first[channel // 5], 5) * k[0]).sum((2, 3))
        for channel, k in enumerate(arrays["conv2.weight"])
    ]
    features = np.maximum(np.stack(second), 0).mean((1, 2))
    hidden = np.maximum(arrays["fc1.weight"] @ features + arrays["fc1.bias"], 0)
    logits = arrays["fc2.weight"] @ hidden + arrays["fc2.bias"]
    logits -= np.log(np.exp(logits - logits.max()).sum()) + logits.max()
    got = zoo.population([4]).predict(x[None, :, :, None].astype(np.float32)).log_probs[0, 0]
    np.testing.assert_allclose(got, logits, rtol=1e-3, atol=1e-3)


def test_corrupt_networks_are_named_and_the_import_goes_on(tmp_path):
    contents = {f"{i}": safetensors_bytes(published("optunet", i)) for i in range(8)}
    contents["2"] = contents["2"][:-10]
    bad = published("optunet", 3)
    bad["fc1.bias"][0] = np.nan
    contents["3"] = safetensors_bytes(bad)
    strange = published("optunet", 5)
    strange["fc9.bias"] = strange.pop("fc1.bias")
    contents["5"] = safetensors_bytes(strange)
    misshapen = published("optunet", 6)
    misshapen["conv1.weight"] = np.zeros((2, 1, 3, 3), np.float16)
    contents["6"] = safetensors_bytes(misshapen)
    zoo = import_checkpoints(
        archive(tmp_path / "mnist-optunet-0-7.tgz", contents), tmp_path / "zoo"
    )
    assert zoo.chosen == (0, 1, 4, 7)
    problems = {r["name"]: r["problem"] for r in zoo.records if r["status"] == "corrupt"}
    assert set(problems) == {"2", "3", "5", "6"}
    assert "2 is not a whole safetensors file" in problems["2"]
    assert "NaN or infinity" in problems["3"]
    assert "missing fc1.bias; not known fc9.bias" in problems["5"]
    assert "'conv1.weight' has shape (2, 1, 3, 3)" in problems["6"]


def test_a_killed_import_resumes_to_the_same_bytes(optunets, tmp_path):
    place, _ = optunets
    import_checkpoints(place, tmp_path / "whole", shard_members=5)

    def stop(count, name):
        if count == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_checkpoints(place, tmp_path / "broken", shard_members=5, progress=stop)
    import_checkpoints(place, tmp_path / "broken", shard_members=5)
    for path in (tmp_path / "whole").glob("*.*"):
        assert path.read_bytes() == (tmp_path / "broken" / path.name).read_bytes(), path.name


def header(entries, data=b"\0" * 8, length=None):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8 + b"{}",
        header({"a": ENTRY}, length=10**9),
        header({"a": ENTRY}, b"\0" * 12),
        header({"a": {**ENTRY, "shape": [3]}}),
        header({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, b"\0" * 12),
        header({"a": {**ENTRY, "dtype": "Q9"}}),
        header({"a": 3}),
        header({"a": {**ENTRY, "shape": [-1, -2]}}),
    ],
    ids=["empty", "length", "long", "gap", "shape", "overlap", "type", "entry", "negative"],
)
def test_damaged_files_are_refused(content):
    with pytest.raises(DamagedFile, match="net is not a whole safetensors file"):
        parse(content, "net")


def test_bfloat16_and_metadata_are_read():
    data = np.array([1.5, -2.0], "<f4").view("<u4") >> 16
    entries = {
        "a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
        "__metadata__": {"x": "y"},
    }
    found = parse(header(entries, data.astype("<u2").tobytes()), "net")
    np.testing.assert_array_equal(found["a"], [1.5, -2.0])


def test_paths_that_leave_the_archive_are_refused(tmp_path):
    content = safetensors_bytes(published("optunet", 0))
    place = archive(tmp_path / "mnist-optunet.tgz", {"0": content}, folder="../outside")
    with pytest.raises(InputError, match="points outside"):
        list(read_checkpoints(place))
    with pytest.raises(InputError, match="is not there"):
        list(read_checkpoints(tmp_path / "none.tgz"))


def test_a_broken_archive_says_where(optunets, tmp_path):
    content = optunets[0].read_bytes()
    place = tmp_path / "mnist-optunet-broken.tgz"
    place.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedFile, match="breaks off after"):
        import_checkpoints(place, tmp_path / "zoo")
    # What was read before is kept, and the whole archive goes on from there.
    assert import_checkpoints(optunets[0], tmp_path / "other").members == 12


def test_a_folder_is_read_in_the_order_of_its_numbers(tmp_path):
    folder = tmp_path / "optunet"
    folder.mkdir()
    for i in (10, 9, 2):
        (folder / f"net-{i}.safetensors").write_bytes(safetensors_bytes(published("optunet", i)))
    assert [c.name for c in read_checkpoints(folder)] == ["net-2", "net-9", "net-10"]


# Files that lie.


@pytest.mark.parametrize("where", ["length", "name", "padding"])
def test_a_shards_header_is_covered_too(tmp_path, where):
    zoo = write(tmp_path / "zoo", 3)
    path = zoo.folder / "shard-00000.safetensors"
    content = bytearray(path.read_bytes())
    length = struct.unpack("<Q", content[:8])[0]
    place = {"length": 0, "name": content.index(b"bias"), "padding": 8 + length - 1}[where]
    content[place] ^= 1
    path.write_bytes(content)
    damage = Zoo.open(zoo.folder).damage()
    assert list(damage) == [0, 1, 2]
    with pytest.raises(InputError):
        Zoo.open(zoo.folder).population()


def test_a_population_never_holds_damaged_numbers(tmp_path, refused):
    zoo = write(tmp_path / "zoo", 3)
    path = zoo.folder / "shard-00000.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 0x40
    path.write_bytes(content)
    refused(Zoo.open(zoo.folder).population, "member 2 of .* is damaged")
    assert Zoo.open(zoo.folder).population(slice(0, 2)).num_members == 2
    with pytest.warns(DamagedMember, match="member 2"):
        assert Zoo.open(zoo.folder, verify=True).population().num_members == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shards": 3}, "shards is 3"),
        ({"shards": [{"file": "shard-00000.safetensors", "members": 3}]}, "sha256 is missing"),
        ({"shards": [{"file": "../../x", "members": 3, "sha256": ""}]}, "character '/'"),
        ({"shapes": {"a": [-1]}}, r"shapes.a is a list"),
        ({"input_shape": [2**50]}, "input_shape"),
        ({"likelihood": "magic"}, "likelihood is 'magic'"),
        ({"network": {"name": "mlp", "options": 3, "outputs": 3}}, "options is 3"),
        ({"network": {"name": "mlp", "options": {"hidden": "x"}, "outputs": 3}}, "network"),
        ({"units": {"inputs": {"mean": 0, "scale": 0}, "targets": None}}, "units"),
        ({"more": 1}, "more is not known"),
    ],
)
def test_a_manifest_of_other_types_is_one_sentence(tmp_path, refused, change, words):
    zoo = write(tmp_path / "zoo", 3)
    file = zoo.folder / "zoo.json"
    content = json.loads(file.read_text())
    del content["digest"]  # as in older zoos: types are checked without it too
    file.write_text(json.dumps(content | change))
    refused(lambda: Zoo.open(zoo.folder).population(), words)


def test_a_changed_digit_of_the_manifest_is_refused(tmp_path, refused):
    """An input's unit that is another number would be a silent wrong answer."""
    zoo = write(tmp_path / "zoo", 3)
    file = zoo.folder / "zoo.json"
    content = json.loads(file.read_text())
    content["origin"] = {**content["origin"], "seed": 7}
    file.write_text(json.dumps(content))
    refused(lambda: Zoo.open(zoo.folder), "its digest differs")
    del content["digest"]
    file.write_text(json.dumps(content))
    assert len(Zoo.open(zoo.folder)) == 3


def test_a_full_shard_that_was_not_closed_is_closed_on_reopening(tmp_path, monkeypatch):
    """A kill between the last record of a shard and its closing."""
    whole = write(tmp_path / "whole", 5, shard_members=3)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("credax.zoo.writer.ZooWriter._close_shard", dies)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "zoo", 3, shard_members=3)
    with ZooWriter(tmp_path / "zoo", manifest(shard_members=3)) as writer:
        for i in range(writer.count, 5):
            writer.append(member(i), {"name": f"net-{i}", "test_accuracy": i / 10})
        writer.finish()
    found = Zoo.open(tmp_path / "zoo")
    assert [shard.members for shard in found.manifest.shards] == [3, 2]
    for path in whole.folder.glob("*.*"):
        assert path.read_bytes() == (found.folder / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    "change", [{"index": 5}, {"status": 3}, {"digest": None}, {"name": 7}, {"index": "0"}]
)
def test_a_damaged_record_costs_its_member_only(tmp_path, change):
    zoo = write(tmp_path / "zoo", 3)
    file = zoo.folder / "members.jsonl"
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps(json.loads(first) | change), *others]) + "\n")
    for verify in (False, True):
        with pytest.warns(DamagedMember, match="member 0 is stored and has no readable record"):
            assert Zoo.open(zoo.folder, verify=verify).chosen == (1, 2)


def test_members_that_a_cut_journal_lost_are_missed(tmp_path):
    zoo = write(tmp_path / "zoo", 5, shard_members=2)
    file = zoo.folder / "members.jsonl"
    file.write_text("".join(line + "\n" for line in file.read_text().splitlines()[:3]))
    with pytest.warns(DamagedMember, match=r"member \d is stored and has no readable record"):
        found = Zoo.open(zoo.folder, verify=True)
    assert found.chosen == (0, 1, 2)
    # A writer does not give lost members' numbers to new ones.
    with ZooWriter(zoo.folder, manifest(shard_members=2)) as writer:
        assert writer.count == 5


@pytest.mark.parametrize("content", [b"", b"\0" * 10_000])
def test_an_open_shard_without_its_header_is_made_again(tmp_path, content):
    folder = tmp_path / "zoo"
    write(folder, 2, shard_members=2)
    with ZooWriter(folder, manifest(shard_members=2)) as writer:
        writer.append(member(2), {"name": "net-2"})
        writer.flush()
    part = folder / ".shard-00001.part"
    size = part.stat().st_size
    part.write_bytes(content[:size].ljust(size if content else 0, b"\0"))
    with ZooWriter(folder, manifest(shard_members=2)) as writer:
        assert writer.count == 2
        for i in (2, 3):
            writer.append(member(i), {"name": f"net-{i}"})
        writer.finish()
    found = Zoo.open(folder, verify=True)
    assert found.chosen == (0, 1, 2, 3)
    np.testing.assert_array_equal(found[3:4, "0_dense/bias"][0], member(3)["params/0_dense/bias"])


def test_a_full_disk_and_a_folder_without_permission_are_one_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with ZooWriter(tmp_path / "zoo", manifest()) as writer:
        monkeypatch.setattr("os.posix_fallocate", full)
        with pytest.raises(InputError, match=r"No space left on device.*run the same command"):
            writer.append(member(0), {})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to the folder"):
        ZooWriter(tmp_path / "file" / "zoo", manifest())


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="cannot write to the folder"):
        ZooWriter(tmp_path / "zoo", manifest())
    assert (tmp_path / "mine").read_text() == "precious"


def test_an_exported_name_stays_in_its_folder(optunets, tmp_path, refused):
    zoo = import_checkpoints(optunets[0], tmp_path / "zoo")
    file = zoo.folder / "members.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[1]["name"] = "../../escaped"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    refused(lambda: export_checkpoints(Zoo.open(zoo.folder), tmp_path / "out"), "name of member 1")
    assert not (tmp_path.parent / "escaped.safetensors").exists()
