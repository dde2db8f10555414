"""Devices in PopART's interface: each of them is the emulator."""

from collections.abc import Mapping
from typing import Any

from popart.enums import DeviceConnectionType, DeviceSelectionCriterion, DeviceType, SyncPattern


class DeviceInfo:
    """A device: its kind and its number of IPUs. Made by a DeviceManager."""

    def __init__(self, type: DeviceType, num_ipus: int, id: int = 0) -> None:
        self.type, self.numIpus, self.id = type, num_ipus, id
        self.connectionType = DeviceConnectionType.Always
        self.isAttached = False

    def attach(self) -> bool:
        """Attaches the device, exclusively. Returns True."""
        self.isAttached = True
        return True

    def detach(self) -> None:
        """Releases the device."""
        self.isAttached = False

    def __enter__(self) -> "DeviceInfo":
        self.attach()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.detach()

    def __repr__(self) -> str:
        return f"DeviceInfo[{self.type.name} numIpus={self.numIpus}]"


class DeviceManager:
    """Finds devices. Its methods raise ValueError for less than one IPU."""

    def createCpuDevice(self) -> DeviceInfo:
        """Returns a device of one IPU."""
        return DeviceInfo(DeviceType.Cpu, 1)

    def createIpuModelDevice(self, options: "Mapping[str, Any] | None" = None) -> DeviceInfo:
        """Returns a device.

        Args:
            options: "numIPUs", by default 1; the others are for hardware.
        """
        return self._of_options(DeviceType.IpuModel, options)

    def createSimDevice(self, options: "Mapping[str, Any] | None" = None) -> DeviceInfo:
        """See `createIpuModelDevice`.

        Args:
            options: "numIPUs", by default 1; other options are for hardware.
        """
        return self._of_options(DeviceType.Sim, options)

    def createOfflineIPUDevice(self, options: "Mapping[str, Any] | None" = None) -> DeviceInfo:
        """See `createIpuModelDevice`.

        Args:
            options: "numIPUs", by default 1; other options are for hardware.
        """
        return self._of_options(DeviceType.OfflineIpu, options)

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIPU: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """Returns an attached device of so many IPUs; the other arguments are for hardware.

        Args:
            numIpus: The number of IPUs.
            tilesPerIPU: Accepted for hardware, without effect.
            pattern: Accepted for hardware, without effect.
            connectionType: Accepted for hardware, without effect.
            selectionCriterion: Accepted for hardware, without effect.
        """
        device = self._made(DeviceType.Ipu, numIpus)
        device.connectionType = connectionType
        device.attach()
        return device

    def acquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo:
        """Returns an attached device of one IPU with this id.

        Args:
            id: The id of the device.
            pattern: Accepted for hardware, without effect.
            connectionType: Accepted for hardware, without effect.
        """
        device = DeviceInfo(DeviceType.Ipu, 1, id)
        device.attach()
        return device

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: "int | None" = None,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        tilesPerIPU: int = 0,
        numIPUs: "int | None" = None,
    ) -> list[DeviceInfo]:
        """Returns the one device of so many IPUs, given as numIpus or numIPUs.

        Args:
            pattern: Accepted for hardware, without effect.
            numIpus: The number of IPUs.
            deviceType: Accepted for hardware, without effect.
            connectionType: Accepted for hardware, without effect.
            tilesPerIPU: Accepted for hardware, without effect.
            numIPUs: The number of IPUs; another name of `numIpus`.
        """
        return [self._made(deviceType, numIPUs or numIpus or 1)]

    def setOnDemandAttachTimeout(self, timeout: int) -> None:
        """Accepted without effect: devices are always available.

        Args:
            timeout: Accepted without effect.
        """

    def _of_options(self, type: DeviceType, options: "Mapping[str, Any] | None") -> DeviceInfo:
        return self._made(type, int((options or {}).get("numIPUs", 1)))

    def _made(self, type: DeviceType, num_ipus: int) -> DeviceInfo:
        if num_ipus < 1:
            raise ValueError(f"A device must have at least one IPU but numIPUs is {num_ipus}.")
        return DeviceInfo(type, num_ipus)
