"""Reads GPUs and their load through NVML, or only their names from /proc and /sys."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from labbook.errors import Unavailable

_DRIVER = Path("/proc/driver/nvidia")
_DEVICES = Path("/dev")


class GpuReader:
    """Reads NVIDIA devices through NVML until it is closed.

    Args:
        nvml: The module `pynvml` (of the package nvidia-ml-py).

    Raises:
        Unavailable: The driver does not answer.
    """

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401 - the module has no types
        self._nvml = nvml
        try:
            nvml.nvmlInit()
            self._devices = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        except nvml.NVMLError as error:
            raise Unavailable(f"NVML does not answer: `{error}`") from error

    def facts(self) -> list[dict[str, Any]]:
        """Returns `index`, `name`, `memory_bytes` and `capability` ("9.0", if known) of each device.

        No serial numbers or UUIDs: they identify a machine and explain no result.
        """
        return [self._facts(index, device) for index, device in enumerate(self._devices)]

    def _facts(self, index: int, device: Any) -> dict[str, Any]:  # noqa: ANN401
        nvml = self._nvml
        facts: dict[str, Any] = {"index": index, "name": _text(nvml.nvmlDeviceGetName(device))}
        with contextlib.suppress(nvml.NVMLError):
            facts["memory_bytes"] = int(nvml.nvmlDeviceGetMemoryInfo(device).total)
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            major, minor = nvml.nvmlDeviceGetCudaComputeCapability(device)
            facts["capability"] = f"{major}.{minor}"
        return facts

    def driver(self) -> dict[str, str]:
        """Returns `driver` and `cuda_driver` (the newest CUDA that the driver supports), if known."""
        nvml = self._nvml
        facts: dict[str, str] = {}
        with contextlib.suppress(nvml.NVMLError):
            facts["driver"] = _text(nvml.nvmlSystemGetDriverVersion())
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            version = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
            facts["cuda_driver"] = f"{version // 1000}.{version % 1000 // 10}"
        return facts

    def sample(self, pids: Collection[int]) -> list[dict[str, int]]:
        """Returns the load of each device: `used` (bytes), `util` (percent), `own` (bytes of `pids`).

        `own` is missing if the driver does not report it: in most containers process ids do not match.
        """
        rows = []
        for device in self._devices:
            row: dict[str, int] = {}
            with contextlib.suppress(self._nvml.NVMLError):
                row["used"] = int(self._nvml.nvmlDeviceGetMemoryInfo(device).used)
            with contextlib.suppress(self._nvml.NVMLError):
                row["util"] = int(self._nvml.nvmlDeviceGetUtilizationRates(device).gpu)
            with contextlib.suppress(self._nvml.NVMLError):
                running = self._nvml.nvmlDeviceGetComputeRunningProcesses(device)
                own = [p.usedGpuMemory for p in running if p.pid in pids]
                if own and all(isinstance(used, int) for used in own):
                    row["own"] = sum(own)
            rows.append(row)
        return rows

    def close(self) -> None:
        """Shuts NVML down."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


def open_gpus() -> GpuReader:
    """Returns a reader of this machine's devices.

    Raises:
        Unavailable: There is no NVIDIA driver, or nvidia-ml-py is not installed in labbook's environment.
    """
    if not has_nvidia():
        raise Unavailable("no NVIDIA driver on this machine")
    try:
        import pynvml
    except ImportError:
        raise Unavailable("nvidia-ml-py is not installed beside labbook (`pip install 'labbook[gpu]'`)") from None
    return GpuReader(pynvml)


def has_nvidia() -> bool:
    """Whether an NVIDIA driver is loaded; cheaper than importing NVML."""
    return _DRIVER.is_dir() or (_DEVICES / "nvidiactl").exists() or (_DEVICES / "dxg").exists()


def gpus_without_nvml(driver: Path = _DRIVER, drm: Path = Path("/sys/class/drm")) -> dict[str, Any]:
    """Returns `gpus` (`index`, `name`, `memory_bytes` if known) and `driver` from the kernel.

    Args:
        driver: Folder of the NVIDIA driver in /proc.
        drm: Folder of the display devices in /sys, which has the memory of AMD devices.
    """
    gpus: list[dict[str, Any]] = []
    for information in sorted(driver.glob("gpus/*/information")):
        with contextlib.suppress(OSError):
            model = next((ln for ln in information.read_text().splitlines() if ln.startswith("Model:")), "")
            gpus.append({"index": len(gpus), "name": model.partition(":")[2].strip()})
    for total in sorted(drm.glob("card*/device/mem_info_vram_total")):
        with contextlib.suppress(OSError, ValueError):
            name = "AMD"
            with contextlib.suppress(OSError):
                name = f"AMD {(total.parent / 'product_name').read_text().strip()}".strip()
            gpus.append({"index": len(gpus), "name": name, "memory_bytes": int(total.read_text())})
    facts: dict[str, Any] = {"gpus": gpus}
    with contextlib.suppress(OSError, IndexError):
        line = (driver / "version").read_text().splitlines()[0]
        facts["driver"] = next(w for w in line.split() if w[:1].isdigit() and "." in w)
    return facts


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
