"""Ways to damage a file, by what it is."""

import mutations_archives as archives
import mutations_arrays as arrays
import mutations_bytes as plain
import mutations_json as texts


def mutate(path, rng):
    """Damage one file in one way; returns what was done, for a report."""
    chosen = rng.choice(_fitting(path))
    try:
        chosen(path, rng)
    except Exception as error:
        # The file does not parse (it was damaged before): bytes can always be changed.
        plain.flip(path, rng)
        return f"flip (after {chosen.__name__}: {type(error).__name__})"
    return chosen.__name__


def _fitting(path):
    always = [
        plain.flip,
        plain.flip,
        plain.truncate,
        plain.cut,
        plain.repeat,
        plain.overwrite,
        plain.insert,
        plain.number,
        plain.swap,
        plain.splice,
        plain.special,
    ]
    by_ending = {
        ".json": [texts.json_structure] * 12 + [texts.json_text] * 2,
        ".jsonl": [texts.json_line] * 12 + [texts.json_text] * 2,
        ".safetensors": [arrays.tensors_header] * 5 + [arrays.signed] * 12,
        ".npz": [arrays.npz_header] * 3 + [arrays.npz_values] * 6 + [arrays.npz_bomb],
        ".npy": [arrays.npy_header] * 4 + [arrays.npy_values] * 6,
        ".csv": [texts.cells] * 8,
        ".tsv": [texts.cells] * 8,
        ".txt": [texts.cells] * 8,
        ".gz": [archives.gzip_inside] * 4 + [archives.gzip_bomb],
        ".tgz": [archives.tar_bomb, archives.tar_inside, archives.tar_inside],
        ".xz": [archives.tar_inside, archives.tar_inside, archives.xz_bomb],
        ".zip": [archives.zip_bomb, archives.zip_inside, archives.zip_inside],
        ".png": [archives.png_size] * 2,
    }
    kinds = by_ending.get(path.suffix, [])
    if path.name.endswith(".tar.gz"):
        kinds = by_ending[".tgz"]
    return always + kinds
