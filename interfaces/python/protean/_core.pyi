"""The extension: it translates between NumPy and the library. Use the modules next to it."""

from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__version__: str
has_gpu_code: bool
cuda_major: int

class DeviceArray:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    entries: str
    pointer: int
    ordinal: int
    stream: int | None
    @staticmethod
    def view(
        what: str,
        data: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        entries: str,
        ordinal: int,
        stream: int | None,
        kept: object,
    ) -> DeviceArray: ...
    @staticmethod
    def of_dlpack(what: str, object: object) -> DeviceArray: ...
    @staticmethod
    def make(ordinal: int, shape: tuple[int, ...], entries: str, by_columns: bool) -> DeviceArray: ...
    def upload(self, address: int) -> None: ...
    def download(self, address: int) -> None: ...
    def fill_zero(self) -> None: ...
    def dlpack(self) -> object: ...
    def handed_out(self) -> None: ...

class _Matrix:
    shape: tuple[int, int]
    nonzeros: int
    threads: int
    is_function: bool
    borrowed: bool
    ordinal: int
    given_on_device: bool
    format: str
    kernel: str
    order: str
    bytes: int
    parameters: dict[str, str]
    format_reason: str
    wanted_format: str
    wanted_order: str
    def want(self, format: str, parameters: dict[str, int | str] | None, kernel: str, order: str) -> None: ...
    def settle(self) -> None: ...
    def convert(
        self, format: str, parameters: dict[str, int | str] | None, kernel: str, order: str | None
    ) -> None: ...
    def update(self, values: NDArray[Any] | DeviceArray, kept: object) -> None: ...
    @overload
    def apply(self, x: NDArray[Any], y: NDArray[Any]) -> None: ...
    @overload
    def apply(self, x: DeviceArray, y: DeviceArray) -> None: ...
    @overload
    def apply_transposed(self, x: NDArray[Any], y: NDArray[Any]) -> None: ...
    @overload
    def apply_transposed(self, x: DeviceArray, y: DeviceArray) -> None: ...
    def apply_columns(self, x: NDArray[Any], y: NDArray[Any]) -> None: ...
    def time_product(self, budget: float) -> float: ...
    def csr(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]: ...

class MatrixF64(_Matrix):
    @staticmethod
    def of_csr(
        rows: int,
        cols: int,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        data: NDArray[Any],
        kept: object,
        threads: int,
        ordinal: int = -1,
    ) -> MatrixF64: ...
    @staticmethod
    def of_device_csr(
        rows: int, cols: int, indptr: DeviceArray, indices: DeviceArray, data: DeviceArray, kept: object
    ) -> MatrixF64: ...
    @staticmethod
    def of_function(
        rows: int, cols: int, function: Callable[[NDArray[Any]], NDArray[Any]], threads: int
    ) -> MatrixF64: ...
    def transposed(self) -> MatrixF64: ...

class MatrixF32(_Matrix):
    @staticmethod
    def of_csr(
        rows: int,
        cols: int,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        data: NDArray[Any],
        kept: object,
        threads: int,
        ordinal: int = -1,
    ) -> MatrixF32: ...
    @staticmethod
    def of_device_csr(
        rows: int, cols: int, indptr: DeviceArray, indices: DeviceArray, data: DeviceArray, kept: object
    ) -> MatrixF32: ...
    @staticmethod
    def of_function(
        rows: int, cols: int, function: Callable[[NDArray[Any]], NDArray[Any]], threads: int
    ) -> MatrixF32: ...
    def transposed(self) -> MatrixF32: ...

class SourceF64:
    @staticmethod
    def of_matrix(matrix: MatrixF64) -> SourceF64: ...
    @staticmethod
    def of_name(preconditioner: str | dict[str, Any]) -> SourceF64: ...
    @staticmethod
    def of_function(function: Callable[[NDArray[Any]], NDArray[Any]], rows: int) -> SourceF64: ...

class SourceF32:
    @staticmethod
    def of_matrix(matrix: MatrixF32) -> SourceF32: ...
    @staticmethod
    def of_name(preconditioner: str | dict[str, Any]) -> SourceF32: ...
    @staticmethod
    def of_function(function: Callable[[NDArray[Any]], NDArray[Any]], rows: int) -> SourceF32: ...

class PreconditionerF64(SourceF64):
    rows: int
    name: str
    symmetric: bool
    bytes: int
    figures: dict[str, float]
    def __init__(self, matrix: MatrixF64, preconditioner: str | dict[str, Any]) -> None: ...
    @overload
    def apply(self, r: NDArray[Any], z: NDArray[Any]) -> None: ...
    @overload
    def apply(self, r: DeviceArray, z: DeviceArray) -> None: ...
    def update(self) -> None: ...

class PreconditionerF32(SourceF32):
    rows: int
    name: str
    symmetric: bool
    bytes: int
    figures: dict[str, float]
    def __init__(self, matrix: MatrixF32, preconditioner: str | dict[str, Any]) -> None: ...
    @overload
    def apply(self, r: NDArray[Any], z: NDArray[Any]) -> None: ...
    @overload
    def apply(self, r: DeviceArray, z: DeviceArray) -> None: ...
    def update(self) -> None: ...

class _Solver:
    method: str
    format: str
    kernel: str
    order: str
    parameters: dict[str, str]
    def solve(
        self, matrix: _Matrix, b: NDArray[Any], x: NDArray[Any], callback: Callable[..., object] | None
    ) -> dict[str, Any]: ...
    def solve_columns(self, matrix: _Matrix, b: NDArray[Any], x: NDArray[Any]) -> dict[str, Any]: ...
    def solve_on_device(
        self, matrix: _Matrix, b: DeviceArray, x: DeviceArray, callback: Callable[..., object] | None
    ) -> dict[str, Any]: ...
    def solve_columns_on_device(self, matrix: _Matrix, b: DeviceArray, x: DeviceArray) -> dict[str, Any]: ...

class SolverF64(_Solver):
    def __init__(self, keywords: dict[str, Any], preconditioner: SourceF64 | None) -> None: ...

class SolverF32(_Solver):
    def __init__(self, keywords: dict[str, Any], preconditioner: SourceF32 | None) -> None: ...

def stop_solves() -> None: ...
def forget_solves() -> None: ...
def solve_scipy(
    matrix: _Matrix,
    method: str,
    b: NDArray[Any],
    x: NDArray[Any],
    absolute: float,
    max_iterations: int,
    number: int,
    preconditioner: SourceF64 | SourceF32 | None,
    callback: Callable[..., object] | None,
    calls: int,
) -> tuple[int, int]: ...
def solve_scipy_columns(
    matrix: _Matrix,
    method: str,
    b: NDArray[Any],
    x: NDArray[Any],
    absolutes: list[float],
    max_iterations: int,
    number: int,
    preconditioner: SourceF64 | SourceF32 | None,
) -> list[tuple[int, int]]: ...
def solve_scipy_on_device(
    matrix: _Matrix,
    method: str,
    b: DeviceArray,
    x: DeviceArray,
    shown: object,
    relative: float,
    absolute: float,
    max_iterations: int,
    number: int,
    preconditioner: SourceF64 | SourceF32 | None,
    callback: Callable[..., object] | None,
    calls: int,
) -> tuple[int, int]: ...
def solve_scipy_columns_on_device(
    matrix: _Matrix,
    method: str,
    b: DeviceArray,
    x: DeviceArray,
    relative: float,
    absolute: float,
    max_iterations: int,
    number: int,
    preconditioner: SourceF64 | SourceF32 | None,
) -> list[tuple[int, int]]: ...
def copy_on_device(from_: DeviceArray, to: DeviceArray) -> None: ...
def device_count() -> int: ...
def search_nvidia_libraries(folders: list[str]) -> None: ...
def nvidia_libraries() -> list[str]: ...
def formats() -> list[dict[str, Any]]: ...
def methods() -> list[dict[str, Any]]: ...
def preconditioners() -> list[dict[str, Any]]: ...
def options() -> list[dict[str, Any]]: ...
def rigid_body_modes(coordinates: Any) -> Any: ...
def default_threads() -> int: ...
def choose(
    matrix: _Matrix, expected_iterations: int, method: str, selector: str
) -> tuple[str, str, str, str, list[dict[str, Any]]]: ...
def inspect(matrix: _Matrix) -> dict[str, Any]: ...
def admit(matrix: _Matrix, format: str) -> tuple[bool, int, str]: ...
def command(words: list[str]) -> int: ...
