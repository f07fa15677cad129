"""Requests of obstore for the objects of a bucket, and what their answers say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import obstore
from obstore.exceptions import GenericError, InvalidPathError

from hipslake.storage.entry import Entry
from hipslake.storage.s3_client import S3Client
from hipslake.storage.timeouts import deadline

_NOT_A_PART = "non-partial response"  # the answer of a store that takes no range, or to one of nothing
_NO_SUCH_RANGE = "status code: 416"  # the answer to a range beyond the end, or of nothing
_PAGE = 1000


def bucket_and_key(uri: str) -> tuple[str, str]:
    """The bucket and the key of an object."""
    bucket, _, key = uri.partition("://")[2].partition("/")
    return bucket, key.rstrip("/")


def below(key: str, path: str) -> str:
    """A path in the folder of a key, relative to it; "" is the folder itself."""
    return path.removeprefix(key).lstrip("/") if key else path


def entry_of(path: str, meta: Any) -> Entry:
    """The entry of an object, by what obstore says of it."""
    stamp = meta["e_tag"] or meta["last_modified"].isoformat()
    return Entry(path, int(meta["size"]), stamp, False)


def head(key: str) -> Any:
    """The request for what there is to say of an object."""
    return lambda store: obstore.head(store, key)


def get_range(store: Any, key: str, start: int, stop: int) -> Any:
    """The bytes [start, stop) of an object; fewer where it ends before."""
    if start >= stop:
        return b""
    try:
        return obstore.get_range(store, key, start=start, end=stop)
    except GenericError as error:
        if _is_beyond(error):
            return b""
        return memoryview(get_whole(store, key))[start:stop]


async def range_answer(store: Any, key: str, start: int, stop: int) -> Any:
    """What `get_range` gives, on an event loop."""
    if start >= stop:
        return b""
    try:
        return await obstore.get_range_async(store, key, start=start, end=stop)
    except GenericError as error:
        if _is_beyond(error):
            return b""
        whole = await (await obstore.get_async(store, key)).bytes_async()
        return memoryview(whole)[start:stop]


def _is_beyond(error: GenericError) -> bool:
    """Whether an object ends before a range, or else the store takes none; raises other errors."""
    if _NO_SUCH_RANGE in str(error):
        return True
    if _NOT_A_PART not in str(error):
        raise error
    return False


def get_tail(store: Any, key: str, most: int) -> Any:
    """The last bytes of an object; all where there are fewer."""
    try:
        return (obstore.get(store, key, options={"range": {"suffix": most}})).bytes()
    except GenericError as error:
        if _is_beyond(error):
            return b""
        return memoryview(get_whole(store, key))[-most:]


def get_whole(store: Any, key: str) -> Any:
    """The content of an object, in the memory where it arrived."""
    return (obstore.get(store, key)).bytes()


def list_all(store: Any, key: str, found: dict[str, Any]) -> None:
    """Find all objects in a folder, by their paths; after a failure it goes on where it was.

    A folder's marker has the path of an object without its slash; of both, the object is told.
    """
    last = next(reversed(found), None)
    for page in obstore.list(store, key or None, offset=last, chunk_size=_PAGE):
        if (end := deadline()).left() <= 0:
            raise TimeoutError(end.text())
        for each in page:
            known = found.pop(each["path"], each)
            found[each["path"]] = max(known, each, key=_size)


def list_folder(store: Any, key: str) -> tuple[list[str], list[Any]]:
    """The folders and the objects in a folder."""
    listed = obstore.list_with_delimiter(store, key or None)
    return list(listed["common_prefixes"]), list(listed["objects"])


def _size(meta: Any) -> int:
    return int(meta["size"])


def create(client: S3Client, key: str, content: bytes, attributes: Any = None) -> Any:
    def request(store: Any) -> Any:
        return obstore.put(store, key, content, mode="create", attributes=attributes)

    return client.ask(request, sends=len(content))


def put_request(key: str, content: Any) -> Any:
    """The request that puts an object, whole."""
    data = memoryview(content).cast("B")
    return lambda store: obstore.put(store, key, data, use_multipart=False)


def is_any_below(store: Any, key: str) -> bool:
    """Whether anything lies in a folder."""
    try:
        next(iter(obstore.list(store, key or None, chunk_size=1)))
    except StopIteration:
        return False
    except InvalidPathError:  # a name that obstore cannot say
        return True
    return True


def markers_among(client: S3Client, objects: Sequence[Any]) -> set[str]:
    """The keys of folders among objects: empty objects whose names end in a slash, which is not told."""

    def request(key: str) -> Any:
        def missing(store: Any) -> bool:
            try:
                obstore.head(store, key)
            except FileNotFoundError:
                return True
            return False

        return missing

    empty = [each["path"] for each in objects if not each["size"]]
    return {
        key for key, missing in zip(empty, client.ask_all([*map(request, empty)]), strict=True) if missing
    }
