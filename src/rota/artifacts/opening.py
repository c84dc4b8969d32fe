"""The object place of an address. obstore is installed only by those who use S3."""

from __future__ import annotations

from pathlib import Path

from rota.artifacts.folder import FolderPlace
from rota.artifacts.place import LIMIT, ObjectPlace, PlaceRefused
from rota.artifacts.signing import UrlSigner
from rota.clock import Chance, Clock
from rota.objects_address import FolderAddress, S3Address


def open_place(
    address: FolderAddress | S3Address,
    clock: Clock,
    chance: Chance,
    *,
    signer: UrlSigner | None = None,
    base: str = "",
    limit: float = LIMIT,
) -> ObjectPlace:
    """Nothing is asked of the place yet. `signer` and `base` are for the signed URLs of a folder."""
    if isinstance(address, FolderAddress):
        return FolderPlace(Path(address.path).expanduser(), clock, chance, signer=signer, base=base, limit=limit)
    try:
        from rota.artifacts.s3 import S3Place
    except ModuleNotFoundError as error:
        raise PlaceRefused(f"S3 needs {error.name}; install it with `pip install 'rota[objects]'`") from None
    return S3Place(address, chance, limit=limit)
