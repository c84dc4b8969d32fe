"""What obstore raises, in words for the person who can mend it.

obstore tells little by the classes of its errors. The HTTP status and the code of S3 stand in their texts.
"""

from __future__ import annotations

import re

from rota.artifacts.place import NoObject, PlaceAway, PlaceRefused

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\(code: (\w{1,60})\)")  # the second: of one key of many to delete
_CAUSE = re.compile(r'\b(?:message|error): "([^"\n]{1,200})"')
_CREDENTIALS = "the credentials are wrong: check the access key and the secret key"
_REFUSED = {
    "NoSuchBucket": "there is no such bucket: create it, or name another one",
    "InvalidBucketName": "the name of the bucket is not valid there",
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "InvalidToken": "the session token is wrong: check AWS_SESSION_TOKEN",
    "ExpiredToken": "the session token has expired",
    "AccessDenied": "the credentials don't allow that; rota reads, writes, lists and deletes below its prefix",
    "RequestTimeTooSkewed": "the clocks of this machine and of the object store differ too much",
    "AuthorizationHeaderMalformed": "the region is wrong: name it with region= in the address",
    "PermanentRedirect": "the bucket is in another region: name it with region= in the address",
    "QuotaExceeded": "it is full: the quota of the bucket is used up",
    "EntityTooLarge": "the object is larger than it takes",
    "XMinioStorageFull": "it is full",
    "InsufficientStorage": "it is full",
}
_PASSING = {"RequestTimeout", "SlowDown", "ServiceUnavailable", "InternalError", "OperationAborted"}
_FULL = 507
_CONDITION = 412
_RANGE = 416


class AlreadyThere(Exception):
    """The condition of a write does not hold. Another conflict (409) is none of that: the other write may yet fail."""


class BeyondEnd(Exception):
    """A range that begins where the object ends, or later."""


def problem(place: str, error: Exception, key: str = "") -> Exception:
    """The error of the contract. `key`: of an object that the call needs."""
    text = str(error)
    status, code = _found(_STATUS, text), _found(_CODE, text)
    if code in _REFUSED:
        return PlaceRefused(f"{place}: {_REFUSED[code]}")
    if code in _PASSING:
        return PlaceAway(f"{place}: it is busy or broken ({code})")
    number = int(status or 0)
    if number == _CONDITION:
        return AlreadyThere()
    if number == _RANGE:
        return BeyondEnd()
    if number == 404 or isinstance(error, FileNotFoundError):
        return NoObject(key) if key else PlaceRefused(f"{place}: it has nothing at this address (404)")
    if number:
        return _by_status(place, number, code)
    return PlaceRefused(f"{place}: it refused with {code}") if code else PlaceAway(f"{place}: no answer{_why(text)}")


def _by_status(place: str, status: int, code: str) -> Exception:
    shown = f"{status} {code}".strip()
    if status in (401, 403):
        return PlaceRefused(f"{place}: it denies access ({shown}): check the credentials and their rights")
    if status == _FULL:
        return PlaceRefused(f"{place}: it is full")
    if status in (408, 409, 425, 429) or (status >= 500 and status != 501):
        return PlaceAway(f"{place}: it is busy or broken ({shown})")
    return PlaceRefused(f"{place}: it refused with {shown}")


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next(group for group in found.groups() if group) if found else ""


def _why(text: str) -> str:
    """The innermost cause comes last."""
    causes = _CAUSE.findall(text)
    return f": {causes[-1]}" if causes else " that can be understood"
