"""What a folder or S3 says when it refuses, in words that say what to do."""

from mainspring.errors import StoreUnavailableError

#: What is found in the driver's words, first match first -> what it means.
_WORDS = (
    ("No space left on device", "the disk is full: free some space"),
    ("StorageFull", "the disk is full: free some space"),
    ("Read-only file system", "the disk is read-only"),
    ("NoSuchBucket", "there is no such bucket: make it, or correct MAINSPRING_OBJECTS"),
    ("InvalidAccessKeyId", "the key is not known there: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("SignatureDoesNotMatch", "the key is wrong: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("AccessDenied", "the key may not do this: it needs to read, write, list and delete objects"),
    ("403 Forbidden", "the key may not do this: it needs to read, write, list and delete objects"),
    ("Permission denied", "this user may not: give him the folder, or name another one in MAINSPRING_OBJECTS"),
    ("Not a directory", "it is no folder: name another one in MAINSPRING_OBJECTS"),
    ("File exists", "it is no folder: name another one in MAINSPRING_OBJECTS"),
    ("URL scheme is not allowed", "an endpoint without TLS needs AWS_ALLOW_HTTP=true"),
    ("169.254.169.254", "there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
)
_MOST = 300  # characters of what is not known


def unavailable(place: str, error: Exception) -> StoreUnavailableError:
    told = str(error) or type(error).__name__
    known = next((words for found, words in _WORDS if found in told), None)
    return StoreUnavailableError(f"the objects at {place} cannot be used: {known or told.splitlines()[0][:_MOST]}")
