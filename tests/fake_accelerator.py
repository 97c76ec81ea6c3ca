"""An accelerator made of Python: it shows where code forgets the device, or waits for the host.

Its tensors say that they are on fakegpu:0 and keep their values on the CPU. As on a real accelerator, an operation on
tensors of two devices raises, and so does `.numpy()`. Every read by the host is counted: `.item()`, `bool()`,
`.tolist()`, a copy to the CPU (one for a whole vector), and operations whose result has a size that only the device
knows, such as `nonzero`. A copy from the CPU to the device is not counted.

It shows nothing about kernels, precision, streams or memory.

Installing it cannot be undone, and then torch says that this machine has an accelerator. So the tests that use it run
in a process of their own: see tests/devices/test_on_a_device.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map

NAME = "fakegpu"
READS = {  # the host waits for these: their result is a number, has an unknown size, or comes with an error code
    "_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "unique_dim", "_unique2",
    "unique_consecutive", "repeat_interleave", "_linalg_check_errors", "_linalg_eigh", "_linalg_svd", "linalg_eig",
}  # fmt: skip
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}  # they take indices on the CPU, too
COPIES = {"copy_", "_to_copy", "_copy_from", "_copy_from_and_resize"}
LARGE = 1 << 50  # bytes that a tensor may say it has room for: some operations make it larger in place
_reads: list[str] = []
_kept: list[object] = []


class FakeTensor(Tensor):
    """A tensor that says it is on the accelerator. Its values are a tensor on the CPU."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> FakeTensor:
        tensor: FakeTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, values.size(), strides=values.stride(), storage_offset=values.storage_offset(), dtype=values.dtype,
            device=f"{NAME}:0", requires_grad=values.requires_grad, storage_size=LARGE,
        )  # fmt: skip
        tensor.values = values
        return tensor

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()  # torch would look at the memory

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert a {NAME} tensor to numpy; use .cpu() first")

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.values.untyped_storage()  # so that views of one tensor are known to share it

    def data_ptr(self) -> int:
        return self.values.data_ptr()

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    def __repr__(self, *_: Any, **__: Any) -> str:  # without a read
        return f"FakeTensor({list(self.shape)}, {self.dtype}, device={NAME}:0)"

    def __deepcopy__(self, memo: dict[int, Any]) -> FakeTensor:
        copied = FakeTensor(self.values.detach().clone()).requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)  # type: ignore[assignment]
        memo[id(self)] = copied
        return copied

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class Backend(backend_registration._DummyBackendModule):
    """What torch.fakegpu has: autocast, and a clock that has nothing to wait for."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def synchronize(self, _: object = None) -> None: ...


@cache
def install() -> torch.device:
    """Make the accelerator known to torch, for the rest of this process."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda op, *args, **kwargs: _run(op, args, kwargs), "PrivateUse1")
    _kept.append(library)  # the registration ends when it is collected
    torch.tensor, torch.as_tensor = _on_the_cpu_first(torch.tensor), _on_the_cpu_first(torch.as_tensor)
    return torch.device(NAME, 0)


def _on_the_cpu_first(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """torch makes tensors of Python numbers with its dispatch to Python switched off, and so cannot make ours."""

    @wraps(make)
    def tensor_of(data: Any, *, device: Any = None, **options: Any) -> Tensor:
        if device is not None and torch.device(device).type == NAME:
            return make(data, **options).to(device)
        return make(data, device=device, **options)

    return tensor_of


@contextmanager
def host_reads() -> Iterator[list[str]]:
    """The operations by which the host reads from the accelerator inside this block."""
    before = len(_reads)
    inside: list[str] = []
    try:
        yield inside
    finally:
        inside += _reads[before:]


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    """An operation on the values; results are on the accelerator, unless they were asked for on the CPU."""
    name = func._schema.name.partition("::")[2]
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    _require_one_device(name, tensors)
    if name in READS or (name in INDEXING and _has_mask(args)):
        _reads.append(name)
    device = kwargs.get("device")
    out = func(*tree_map(_plain, args), **tree_map(_plain, kwargs))
    if name in COPIES:
        to_cpu = not isinstance(args[0], FakeTensor) if name == "copy_" else _is_cpu(device)
        if to_cpu:
            _reads.append(f"{name} to the CPU")
            return args[0] if name == "copy_" else out
    known = {id(tensor.values): tensor for tensor in tensors if isinstance(tensor, FakeTensor)}
    for fake in known.values():
        _follow(fake)
    return tree_map(lambda leaf: _wrapped(leaf, known), out)


def _wrapped(leaf: Any, known: dict[int, FakeTensor]) -> Any:
    """What an operation in place returns is the tensor that it changed; everything else is new."""
    if not isinstance(leaf, Tensor):
        return leaf
    return known[id(leaf)] if id(leaf) in known else FakeTensor(leaf)


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, FakeTensor):
        return leaf.values
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def _is_cpu(device: object) -> bool:
    return device is not None and torch.device(device).type == "cpu"  # type: ignore[call-overload]


def _has_mask(args: Any) -> bool:
    """Whether an index is a mask: then only the device knows how many entries are chosen."""
    return any(isinstance(leaf, Tensor) and leaf.dtype in (torch.bool, torch.uint8) for leaf in tree_leaves(args[1]))


def _require_one_device(name: str, tensors: list[Tensor]) -> None:
    """As on a real accelerator: a tensor on the CPU may take part only if it is a single number, an index or a copy."""
    fakes = [tensor for tensor in tensors if isinstance(tensor, FakeTensor)]
    if name in COPIES or not fakes:
        return
    others = [tensor for tensor in tensors if not isinstance(tensor, FakeTensor)]
    if name in INDEXING and isinstance(tensors[0], FakeTensor):
        others = [tensor for tensor in others if tensor.is_floating_point()]
    if any(tensor.dim() > 0 for tensor in others):
        raise RuntimeError(f"{name}: expected all tensors on one device, but got {NAME}:0 and cpu")


def _follow(fake: FakeTensor) -> None:
    """Take on the shape of the values, which an operation may have changed in place."""
    values = fake.values
    if (fake.shape, fake.stride()) != (values.shape, values.stride()):
        with no_dispatch():
            fake.as_strided_(values.shape, values.stride(), values.storage_offset())
