"""How keys are made, and what is no key."""

from __future__ import annotations

import hashlib

import pytest

from rota.artifacts import keys
from rota.artifacts.place import LARGEST
from rota.errors import InvalidInput, TooLarge

MIB = 1 << 20
DIGEST = hashlib.sha256(b"content").hexdigest()


def test_a_publication_is_found_under_its_digest() -> None:
    first, second = (keys.object_key(DIGEST, token) for token in ("0123456789ab", "ba9876543210"))
    assert keys.is_key(keys.object_key(DIGEST, "x" * 48))
    assert first == f"objects/{DIGEST[:2]}/{DIGEST}-0123456789ab"
    assert first != second
    assert keys.digest_of(first) == keys.digest_of(second) == DIGEST
    assert keys.check_key(first) == first


@pytest.mark.parametrize(
    "key",
    [
        "",
        "staging/upload-1/00001",
        f"objects/00/{'f' * 64}-01234567",
        f"objects/ed/{DIGEST}",
        f"x/ed/{DIGEST}-01234567",
    ],
)
def test_other_keys_have_no_digest(key: str) -> None:
    assert keys.digest_of(key) is None


@pytest.mark.parametrize(
    "digest", ["", "ab", DIGEST.upper(), DIGEST + "0", "g" * 64, "../" + DIGEST[3:], DIGEST + "\n"]
)
def test_what_is_no_digest_is_refused(digest: str) -> None:
    with pytest.raises(InvalidInput, match="64 hexadecimal"):
        keys.object_key(digest, "0123456789ab")


@pytest.mark.parametrize("token", ["", "short", "UPPERCASE", "with-dash1", "a/b/c/d/e", "x" * 49])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="token"):
        keys.object_key(DIGEST, token)


def test_parts_are_in_the_order_of_their_numbers() -> None:
    made = [keys.part_key("upload-1", number) for number in range(1, keys.MOST_PARTS + 1)]
    assert made == sorted(made)
    assert made[0] == "staging/upload-1/00001"
    assert [keys.part_number(key) for key in made[::300]] == [1, 301, 601, 901]
    assert all(key.startswith(keys.staging_of("upload-1")) and keys.is_key(key) for key in made[::300])


@pytest.mark.parametrize("number", [0, -1, keys.MOST_PARTS + 1])
def test_a_part_has_a_number(number: int) -> None:
    with pytest.raises(InvalidInput, match="part of an upload"):
        keys.part_key("upload-1", number)


@pytest.mark.parametrize("upload", ["", "short", "../../etc", "UPLOAD-1", "upload/1", "-upload-1", "a" * 65])
def test_what_is_no_upload_is_refused(upload: str) -> None:
    with pytest.raises(InvalidInput, match="upload"):
        keys.part_key(upload, 1)


@pytest.mark.parametrize("size", [0, 1, keys.LEAST_PART, keys.LEAST_PART + 1, 100 * MIB, 16_000 * MIB + 1, LARGEST])
def test_parts_make_up_the_content(size: int) -> None:
    sizes = list(keys.part_sizes(size))
    assert sum(sizes) == size
    assert 1 <= len(sizes) <= keys.MOST_PARTS
    assert set(sizes[:-1]) <= {keys.part_size(size)}
    assert sizes[-1] <= keys.part_size(size)


def test_content_has_a_bound() -> None:
    with pytest.raises(TooLarge):
        keys.part_size(LARGEST + 1)


def test_a_url_lives_longer_for_more() -> None:
    assert keys.sign_life(0) == 300
    assert keys.sign_life(100 * MIB) == 400
    assert keys.sign_life(LARGEST) == 3600


@pytest.mark.parametrize("folder", ["", "a/", "a/b-c/", "staging/upload-1/"])
def test_folders_of_keys(folder: str) -> None:
    assert keys.check_folder(folder) == folder


@pytest.mark.parametrize("folder", ["/", "a", "a//", "../", "a/../", ".a/", "A/", "a/\n"])
def test_what_is_no_folder_of_keys_is_refused(folder: str) -> None:
    with pytest.raises(InvalidInput, match="folder of keys"):
        keys.check_folder(folder)
