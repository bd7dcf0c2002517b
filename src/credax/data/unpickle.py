"""The published CIFAR pickles, read without running anything a pickle asks for."""

import io
import pickle
import pickletools
from typing import Any

import numpy as np

from credax.errors import InputError


def load(contents: bytes, where: str) -> Any:
    """The dictionary in a CIFAR batch: bytes, text, numbers, lists and arrays of bytes only.

    A pickle is a program. This reader knows the four names such files use (numpy's array and dtype
    constructors, and the text-to-bytes helper of Python 3) and answers them with inert stand-ins,
    so not even numpy's own code runs on what the file says; any other name is an `InputError`.
    """
    try:
        _scan(contents)
        return _plain(_Reader(io.BytesIO(contents), encoding="bytes").load())
    except InputError as error:
        raise InputError(f"{where} {error}") from None
    # Damaged bytes can make an unpickler raise nearly anything.
    except Exception as error:
        raise InputError(
            f"{where} is not a readable batch ({type(error).__name__}); "
            "it is damaged or cut short: delete it and get it again"
        ) from error


def _scan(contents: bytes) -> None:
    # The unpickler makes room for every slot up to the largest number a file names.
    for opcode, argument, _ in pickletools.genops(contents):
        if opcode.name.endswith("PUT") and int(argument or 0) > len(contents):
            raise _refuse(f"{argument} memory slots")


def _refuse(what: str) -> InputError:
    return InputError(
        f"holds {what}, which no published batch does; "
        "do not trust this file: delete it and get the published one"
    )


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        maker = _ADMITTED.get((module_name, global_name))
        if maker is None:
            raise _refuse(f"a call of {module_name}.{global_name}")
        return maker


class _Inert:
    """Something a pickle may name; its state cannot be set from a pickle."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        raise _refuse("a change of a built-in name")


class _MakeArray(_Inert):
    __slots__ = ()

    def __call__(self, kind: object, shape: object, code: object) -> "_Bytes":
        return _Bytes()


class _MakeDtype(_Inert):
    __slots__ = ()

    def __call__(self, code: object, align: object = 0, copy: object = 1) -> "_Dtype":
        if code not in (b"u1", "u1"):
            raise _refuse(f"an array of {code!r}")
        return _Dtype()


class _MakeText(_Inert):
    """What Python 3 writes for bytes in protocol 2: text encoded as Latin-1."""

    __slots__ = ()

    def __call__(self, text: object, encoding: object = "latin1") -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
            raise _refuse(f"text in the encoding {encoding!r}")
        return text.encode("latin1")


class _Dtype:
    """The dtype ``uint8``; the byte order and flags that follow do not matter for bytes."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        pass


class _Bytes:
    """An array of bytes, before its shape and contents are known."""

    __slots__ = ("array",)

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, fortran, contents = state
        if not isinstance(dtype, _Dtype) or not isinstance(contents, bytes):
            raise _refuse("an array that is not of bytes")
        order = "F" if fortran else "C"
        self.array = np.frombuffer(contents, np.uint8).reshape(shape, order=order)


def _plain(value: Any) -> Any:
    # Batches are flat. Deeper copies of a dictionary that holds itself twice would never end.
    if isinstance(value, dict):
        return {k: v.array if isinstance(v, _Bytes) else v for k, v in value.items()}
    return value.array if isinstance(value, _Bytes) else value


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _MakeArray(),
    ("numpy._core.multiarray", "_reconstruct"): _MakeArray(),
    ("numpy", "ndarray"): _Inert(),
    ("numpy", "dtype"): _MakeDtype(),
    ("_codecs", "encode"): _MakeText(),
}
