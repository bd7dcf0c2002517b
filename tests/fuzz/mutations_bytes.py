"""Damage to any file: its bytes, or something else in its place."""

import os


def write(path, content):
    path.write_bytes(bytes(content))


def flip(path, rng):
    content = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 9))):
        if content:
            content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    write(path, content)


def truncate(path, rng):
    content = path.read_bytes()
    write(path, content[: rng.integers(len(content) + 1)])


def _chunk(content, rng):
    start = int(rng.integers(len(content) + 1))
    return start, min(len(content), start + int(rng.integers(1, 1 + max(1, len(content) // 2))))


def cut(path, rng):
    content = path.read_bytes()
    start, stop = _chunk(content, rng)
    write(path, content[:start] + content[stop:])


def repeat(path, rng):
    content = path.read_bytes()
    start, stop = _chunk(content, rng)
    write(path, content[:stop] + content[start:stop] * int(rng.integers(1, 4)) + content[stop:])


def overwrite(path, rng):
    content = bytearray(path.read_bytes())
    start, stop = _chunk(content, rng)
    stop = min(stop, start + 64)
    fill = [bytes(64), b"\xff" * 64, rng.bytes(64), b"[" * 64, b"9" * 64][rng.integers(5)]
    content[start:stop] = fill[: stop - start]
    write(path, content)


def insert(path, rng):
    content = path.read_bytes()
    start, _ = _chunk(content, rng)
    more = [rng.bytes(20), b"\0" * 1000, b"\n", b"{", b"\xff\xfe", b"1e999", b","][rng.integers(7)]
    write(path, content[:start] + more + content[start:])


def number(path, rng):
    """An integer of the file made extreme."""
    content = bytearray(path.read_bytes())
    size = int(rng.choice([2, 4, 8]))
    if len(content) < size:
        return
    value = int(rng.choice([0, 1, -1, 2**31 - 1, -(2**31), 2**15, 10**9]))
    start = int(rng.integers(min(len(content) - size + 1, 512)))
    order = str(rng.choice(["little", "big"]))
    content[start : start + size] = (value % 2 ** (8 * size)).to_bytes(size, order)
    write(path, content)


def swap(path, rng):
    content = bytearray(path.read_bytes())
    for _ in range(4):
        if content:
            a, b = rng.integers(len(content), size=2)
            content[a], content[b] = content[b], content[a]
    write(path, content)


def splice(path, rng):
    """The end of another file of the same folder, or of this one moved."""
    others = [p for p in sorted(path.parent.iterdir()) if p.is_file() and p.stat().st_size < 10**7]
    other = others[rng.integers(len(others))].read_bytes()
    content = path.read_bytes()
    start = int(rng.integers(len(content) + 1))
    write(path, content[:start] + other[int(rng.integers(len(other) + 1)) :])


def special(path, rng):
    """Something that is no regular file, or none, or a huge one, in its place."""
    kind = int(rng.integers(9))
    path.unlink()
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind in (2, 3, 4):
        os.symlink(["/dev/zero", "/dev/random", "/dev/null"][kind - 2], path)
    elif kind == 5:
        os.symlink(path.name, path)
    elif kind == 6:
        os.symlink("/nowhere/at/all", path)
    elif kind == 7:
        path.write_bytes(b"")
    else:
        with open(path, "wb") as file:
            file.truncate(2**34)
